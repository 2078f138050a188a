from __future__ import annotations

import os
import random
import signal
import subprocess
import threading
import time
from pathlib import Path

import pytest
from PIL import Image

from headway.storage.kinds import isolated
from headway.storage.verify import InvalidError, check

from . import clips


def reason(path: Path, kind: str, **rule: object) -> str:
    with pytest.raises(InvalidError) as fault:
        check(path, kind, rule)
    return fault.value.reason


CONTAINERS: dict[str, dict[str, object]] = {
    "a.mp4": {},
    "old.mp4": {"codec": "mpeg4"},
    "front.mp4": {"options": {"movflags": "faststart"}},
    "parts.mp4": {"options": {"movflags": "frag_keyframe+empty_moov"}},
    "a.mov": {},
    "a.mkv": {},
    "a.webm": {"codec": "libvpx-vp9"},
    "a.avi": {"codec": "mpeg4"},
    "a.gif": {"codec": "gif"},
}


@pytest.mark.parametrize("name", CONTAINERS)
def test_a_whole_video_tells_its_facts_and_one_cut_off_anywhere_is_invalid(tmp_path: Path, name: str) -> None:
    path = clips.video(tmp_path / name, **CONTAINERS[name])  # type: ignore[arg-type]
    facts = check(path, "video", {"width": 64, "height": 48, "frames": 16, "seconds": 2})
    assert (facts["frames"], facts["width"], facts["height"]) == (16, 64, 48)
    whole = path.read_bytes()
    cuts = {len(whole) * n // 12 for n in range(12)} | {len(whole) - n for n in (1, 2, 9, 50)}
    for keep in sorted(cuts):
        path.write_bytes(whole[:keep])
        with pytest.raises(InvalidError) as fault:
            check(path, "video")
        assert fault.value.unfinished, (keep, fault.value.reason)


def test_a_video_whose_end_was_never_written(tmp_path: Path) -> None:
    path = clips.video(tmp_path / "a.mp4", options={"movflags": "faststart"})
    whole = path.read_bytes()
    # as after a crash of the machine: the size is right, the last blocks are zeros
    path.write_bytes(whole[: len(whole) * 2 // 3].ljust(len(whole), b"\0"))
    assert reason(path, "video")


@pytest.mark.parametrize(
    ("rule", "says"),
    [
        ({"frames": 17}, "It has 16 frames; 17 are asked for."),
        ({"width": 128}, "It is 64 pixels wide; 128 are asked for."),
        ({"height": 64}, "It is 48 pixels high; 64 are asked for."),
        ({"seconds": 2.2}, "It lasts 2 seconds; 2.2 are asked for."),
        ({"seconds": 2.05, "tolerance": 0.01}, "It lasts 2 seconds; 2.05 are asked for."),
        ({"rate": 24}, "It has 8 frames a second; 24 are asked for."),
        ({"min_bytes": 10_000_000}, "at least 10000000 are asked for."),
    ],
)
def test_a_video_that_is_not_what_was_asked_for(tmp_path: Path, rule: dict[str, object], says: str) -> None:
    assert says in reason(clips.video(tmp_path / "a.mp4"), "video", **rule)


def test_seconds_within_the_tolerance_and_a_rate_of_television(tmp_path: Path) -> None:
    clips.video(tmp_path / "a.mp4")
    assert check(tmp_path / "a.mp4", "video", {"seconds": 2.05, "rate": 8})["seconds"] == 2.0
    check(tmp_path / "a.mp4", "video", {"seconds": 3, "tolerance": 1.0})


def test_what_is_no_video(tmp_path: Path) -> None:
    path = tmp_path / "a.mp4"
    for content in (b"", b"no video", os.urandom(5000), b"ffconcat version 1.0\nfile /etc/passwd\n"):
        path.write_bytes(content)
        reason(path, "video")
    clips.sound(tmp_path / "a.wav")
    assert reason(tmp_path / "a.wav", "video") == "It has no video stream."
    assert reason(clips.video(tmp_path / "b.mp4"), "audio") == "It has no audio stream."


def test_a_playlist_is_never_followed(tmp_path: Path) -> None:
    clips.video(tmp_path / "part.ts")
    path = tmp_path / "a.mp4"
    path.write_text("#EXTM3U\n#EXT-X-TARGETDURATION:2\n#EXTINF:2,\npart.ts\n#EXT-X-ENDLIST\n")
    reason(path, "video")


def test_flipped_bytes_end_no_check_without_an_answer(tmp_path: Path) -> None:
    whole = clips.video(tmp_path / "a.mp4").read_bytes()
    chance = random.Random(4)
    path = tmp_path / "b.mp4"
    refused = 0
    for _ in range(60):
        content = bytearray(whole)
        for _ in range(20):
            content[chance.randrange(len(content))] = chance.randrange(256)
        path.write_bytes(content)
        try:
            check(path, "video")
        except InvalidError as error:
            assert error.reason.endswith(".")
            refused += 1
    assert refused > 40


SOUNDS: dict[str, dict[str, object]] = {
    "a.wav": {},
    "a.flac": {"codec": "flac", "channels": 2},
    "a.m4a": {"codec": "aac"},
    "a.opus": {"codec": "libopus", "rate": 48000},
    "a.mp3": {"codec": "libmp3lame"},
}


@pytest.mark.parametrize("name", SOUNDS)
def test_a_whole_sound_tells_its_facts_and_one_cut_off_anywhere_is_invalid(tmp_path: Path, name: str) -> None:
    asked = SOUNDS[name]
    path = clips.sound(tmp_path / name, **asked)  # type: ignore[arg-type]
    rate, channels = asked.get("rate", 16000), asked.get("channels", 1)
    check(path, "audio", {"rate": rate, "channels": channels, "seconds": 2, "tolerance": 0.2})
    whole = path.read_bytes()
    for keep in sorted({len(whole) * n // 10 for n in range(10)} | {len(whole) - n for n in (1, 2, 30)}):
        path.write_bytes(whole[:keep])
        with pytest.raises(InvalidError) as fault:
            check(path, "audio")
        assert fault.value.unfinished, (keep, fault.value.reason)


@pytest.mark.parametrize(
    ("rule", "says"),
    [
        ({"rate": 44100}, "It has 16000 samples a second; 44100 are asked for."),
        ({"channels": 2}, "It has 1 channels; 2 are asked for."),
        ({"seconds": 5}, "It lasts 2 seconds; 5 are asked for."),
    ],
)
def test_a_sound_that_is_not_what_was_asked_for(tmp_path: Path, rule: dict[str, object], says: str) -> None:
    assert reason(clips.sound(tmp_path / "a.wav"), "audio", **rule) == says


def test_a_wav_that_counts_a_padding_byte_it_does_not_have(tmp_path: Path) -> None:
    path = clips.sound(tmp_path / "a.wav", codec="pcm_u8", seconds=1.0, rate=8001)
    whole = path.read_bytes()
    assert len(whole) % 2 == 0
    path.write_bytes(whole[:-1])
    assert check(path, "audio")["samples"] == 8001
    path.write_bytes(whole[:-2])
    reason(path, "audio")


# the decoder's process


def test_a_decoder_is_kept_for_the_next_file(tmp_path: Path) -> None:
    path = clips.video(tmp_path / "a.mp4")
    check(path, "video")
    kept = isolated._idle[-1].pid
    check(path, "video")
    assert isolated._idle[-1].pid == kept


def test_a_kept_decoder_that_was_killed_is_replaced(tmp_path: Path) -> None:
    path = clips.video(tmp_path / "a.mp4")
    check(path, "video")
    for decoder in list(isolated._idle):
        os.kill(decoder.pid, signal.SIGKILL)
    assert check(path, "video")["frames"] == 16


def test_a_decoder_that_hangs_is_ended_and_its_file_is_invalid(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = clips.video(tmp_path / "a.mp4")
    check(path, "video")
    monkeypatch.setattr(isolated, "SILENCE_SECONDS", 0.5)
    stopped = isolated._idle[-1].pid
    os.kill(stopped, signal.SIGSTOP)
    began = time.monotonic()
    assert reason(path, "video") == "Its decoder did not come to an end and was ended."
    assert time.monotonic() - began < 5
    assert not Path(f"/proc/{stopped}").exists()
    monkeypatch.undo()
    assert check(path, "video")["frames"] == 16


def test_a_decoder_that_crashes_makes_its_file_invalid_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = clips.video(tmp_path / "a.mp4")
    crash = "import os, signal; os.kill(os.getpid(), signal.SIGSEGV)"
    monkeypatch.setattr(isolated, "_COMMAND", [isolated._COMMAND[0], "-c", f"input(); {crash}"])
    monkeypatch.setattr(isolated, "_idle", [])
    assert reason(path, "video") == "Its decoder died of SIGSEGV."
    monkeypatch.undo()
    assert check(path, "video")["frames"] == 16


def test_many_threads_check_at_once(tmp_path: Path) -> None:
    whole, cut = clips.video(tmp_path / "a.mp4"), tmp_path / "b.mp4"
    cut.write_bytes(whole.read_bytes()[:-100])
    wrong: list[object] = []

    def work() -> None:
        for _ in range(10):
            if check(whole, "video")["frames"] != 16:
                wrong.append("frames")
            try:
                wrong.append(check(cut, "video"))
            except InvalidError:
                pass

    threads = [threading.Thread(target=work) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert len(isolated._idle) <= 4


def test_decoders_end_with_who_asked_them(tmp_path: Path) -> None:
    path = clips.video(tmp_path / "a.mp4")
    script = (
        "import sys; from pathlib import Path; from headway.storage.kinds import isolated\n"
        "isolated.decode(Path(sys.argv[1]), 'video'); print(isolated._idle[-1].pid)"
    )
    done = subprocess.run(
        [isolated._COMMAND[0], "-c", script, path], capture_output=True, text=True, check=True, timeout=60
    )
    decoder = int(done.stdout)
    until = time.monotonic() + 5
    while _runs(decoder) and time.monotonic() < until:
        os.sched_yield()
    assert not _runs(decoder)


def _runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


# pictures


@pytest.mark.parametrize("suffix", ["png", "jpg", "webp", "gif", "bmp", "tiff"])
def test_a_picture_cut_off_anywhere_is_invalid(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"a.{suffix}"
    Image.effect_noise((64, 40), 50).convert("RGB").save(path)
    facts = check(path, "image", {"width": 64, "height": 40, "frames": 1})
    assert (facts["width"], facts["height"]) == (64, 40)
    whole = path.read_bytes()
    for keep in sorted({len(whole) * n // 10 for n in range(10)} | {len(whole) - 1}):
        path.write_bytes(whole[:keep])
        reason(path, "image")


def test_a_picture_that_is_not_what_was_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "a.png"
    Image.new("L", (64, 40)).save(path)
    assert reason(path, "image", width=65) == "It is 64 pixels wide; 65 are asked for."
    assert reason(path, "image", height=1) == "It is 40 pixels high; 1 are asked for."


def test_each_frame_of_an_animation_is_decoded(tmp_path: Path) -> None:
    frames = [Image.effect_noise((32, 32), n + 20).convert("P") for n in range(5)]
    path = tmp_path / "a.gif"
    frames[0].save(path, save_all=True, append_images=frames[1:])
    assert check(path, "image", {"frames": 5})["frames"] == 5
    path.write_bytes(path.read_bytes()[:-300])
    reason(path, "image")


def test_a_picture_that_would_start_a_program_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 10 10\nshowpage\n")
    assert reason(tmp_path / "a.png", "image") == "It is not an image."

"""Where this process stands in the kernel's groups for memory."""

from __future__ import annotations


def memory_groups() -> list[tuple[str, str, int]]:
    """(where the hierarchy is mounted, our path below it, its version) of each; none where it cannot be told."""
    mounts: dict[int, str] = {}
    try:
        with open("/proc/self/mounts", encoding="utf-8", errors="surrogateescape") as file:
            for line in file:
                _, where, kind, options, *_ = line.split()
                if kind == "cgroup2":
                    mounts.setdefault(2, where)
                elif kind == "cgroup" and "memory" in options.split(","):
                    mounts.setdefault(1, where)
        with open("/proc/self/cgroup", encoding="utf-8", errors="surrogateescape") as file:
            own = [line.rstrip("\n").split(":", 2) for line in file]
    except (OSError, ValueError):
        return []
    found = []
    for _, controllers, path in own:
        version = 1 if "memory" in controllers.split(",") else 2 if not controllers else 0
        if version in mounts:
            found.append((mounts[version], path.rstrip("/"), version))
    return found

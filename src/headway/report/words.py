"""The words of an evaluation's drawing, in English and Chinese: the report's, and on the console's page too."""

from __future__ import annotations

#: key -> (English, Chinese); {names} are filled in by the browser
TEXTS: dict[str, tuple[str, str]] = {
    # figures
    "ev_done": ("Valid", "有效"),
    "ev_best": ("Best checkpoint", "最佳检查点"),
    "ev_best_so_far": ("Best checkpoint so far", "当前最佳检查点"),
    "ev_best_none": ("no score yet", "暂无得分"),
    "ev_tied": ("not told apart from {n} others: {names}", "与另外 {n} 个无显著差别：{names}"),
    "ev_tied_one": ("not told apart from {names}", "与 {names} 无显著差别"),
    "ev_only_whole": ("no other checkpoint has as many cases yet", "尚无其他检查点完成同样多的用例"),
    "ev_alone": ("ahead of every other checkpoint", "显著优于其他所有检查点"),
    "ev_of_total": ("{n} of {total} cells", "{n} / {total} 个单元"),
    "ev_range_of": ("95% interval {low} to {high}", "95% 区间 {low} ～ {high}"),
    "ev_interval_about": (
        "95% intervals by bootstrap over the cases; differences are of pairs, case by case.",
        "95% 区间由用例自助法（bootstrap）得出；差值按用例配对计算。",
    ),
    "ev_partial": ("{n} of {all} cases", "{n} / {all} 个用例"),
    "ev_score": ("Score", "得分"),
    "ev_higher": ("higher is better", "越高越好"),
    "ev_lower": ("lower is better", "越低越好"),
    "ev_mean": ("mean", "均值"),
    "ev_to_best": ("to the best", "与最佳之差"),
    "ev_checkpoint": ("Checkpoint", "检查点"),
    "ev_case": ("Case", "用例"),
    "ev_case_mean": ("Mean of a case", "用例均值"),
    "ev_step": ("step {n}", "第 {n} 步"),
    "ev_epoch": ("epoch {n}", "第 {n} 轮"),
    "ev_axis_step": ("training step", "训练步数"),
    "ev_axis_epoch": ("epoch", "训练轮次"),
    "ev_job": ("job {n}", "训练任务 {n}"),
    "ev_repeat": ("repeat {n}", "第 {n} 次重复"),
    # states of a cell
    "ev_valid": ("valid", "有效"),
    "ev_invalid": ("invalid", "无效"),
    "ev_running": ("running", "运行中"),
    "ev_waiting": ("waiting", "等待"),
    "ev_no_score": ("valid, no score", "有效，无得分"),
    "ev_adopted": ("adopted: it was made before, and is verified", "已接收：此前生成，已通过校验"),
    "ev_found": ("found: it was valid before, and was not run again", "已复用：此前已有效，没有重新运行"),
    # the matrix
    "ev_matrix": ("Every checkpoint on every case", "全部检查点 × 全部用例"),
    "ev_matrix_hint": (
        "Pick a cell for its output, a case to see all checkpoints side by side, a checkpoint for all its cases.",
        "点击单元查看输出；点击用例并排比较所有检查点；点击检查点查看其全部用例。",
    ),
    "ev_scores": ("Scores", "得分"),
    "ev_outputs": ("Outputs", "输出"),
    "ev_order": ("Order", "排序"),
    "ev_by_training": ("by training", "按训练顺序"),
    "ev_by_score": ("best first", "最佳在前"),
    "ev_tag": ("Tag", "标签"),
    "ev_all": ("all", "全部"),
    "ev_only_bad": ("Only with faults", "仅看有问题的"),
    "ev_play_all": ("Play all", "全部播放"),
    "ev_pause_all": ("Pause all", "全部暂停"),
    "ev_zoom_in": ("Larger cells", "放大单元"),
    "ev_zoom_out": ("Smaller cells", "缩小单元"),
    "ev_columns_of": ("Cases {from} to {to} of {all}", "用例 {from}–{to} / {all}"),
    "ev_rows_of": ("Checkpoints {from} to {to} of {all}", "检查点 {from}–{to} / {all}"),
    "ev_before": ("Earlier ones", "上一页"),
    "ev_after": ("Later ones", "下一页"),
    "ev_none_match": ("No cell matches.", "没有符合条件的单元。"),
    "ev_no_cells": (
        "No cells yet: no valid checkpoint has been found. They come with the checkpoints of job {jobs}; "
        "`headway checkpoint ls {first}` says what there is.",
        "还没有单元：尚未找到有效的检查点。训练任务 {jobs} 产出检查点后会自动出现；"
        "可用 `headway checkpoint ls {first}` 查看。",
    ),
    "ev_worst": ("worse", "较差"),
    "ev_better": ("better", "较好"),
    # a cell, a case, a checkpoint
    "ev_close": ("Close", "关闭"),
    "ev_back": ("Back", "返回"),
    "ev_side": ("{case}: every checkpoint side by side", "{case}：所有检查点并排比较"),
    "ev_row": ("{row}: all cases", "{row}：全部用例"),
    "ev_compare": ("Compare checkpoints at this case", "在此用例上比较检查点"),
    "ev_all_of_row": ("All cases of this checkpoint", "此检查点的全部用例"),
    "ev_inputs": ("Inputs", "输入"),
    "ev_parameters": ("Parameters", "参数"),
    "ev_expected": ("Expected", "期望"),
    "ev_tags": ("Tags", "标签"),
    "ev_files": ("Files", "文件"),
    "ev_took": ("Took", "耗时"),
    "ev_why": ("Why", "原因"),
    "ev_metrics": ("Metrics in training", "训练指标"),
    "ev_cell": ("Cell", "单元"),
    "ev_frames": ("{n} frames", "{n} 帧"),
    "ev_not_embedded": (
        "Not in this file: its outputs together would be larger than {limit}.",
        "未嵌入此文件：全部输出将超过 {limit}。",
    ),
    "ev_not_fetched": ("It could not be read when the report was made.", "生成报告时无法读取。"),
    "ev_not_playable": ("The browser cannot play this file.", "浏览器无法播放此文件。"),
    "ev_download": ("Download", "下载"),
    "ev_cut": ("… cut", "……已截断"),
    # curves
    "ev_curves": ("Training and evaluation over the same steps", "同一步数轴上的训练曲线与评测得分"),
    "ev_curve": ("Training curve", "训练曲线"),
    "ev_no_curve": (
        "The job has no metric that could be drawn. A line such as loss=0.12 in its output makes one.",
        "训练任务没有可绘制的指标。输出 loss=0.12 这样的行即可产生指标。",
    ),
    "ev_curve_apart": (
        "{names} may count something else than epochs, so it is not drawn beside the checkpoints: "
        "names such as step-1000.pt put both on one axis.",
        "{names} 的横轴可能不是轮次，因此未与检查点画在一起：使用 step-1000.pt 这样的文件名即可对齐。",
    ),
    "ev_no_steps": (
        "Fewer than two checkpoints with a score say their step or epoch: names such as step-1000.pt or epoch-3.pt do.",
        "带步数或轮次且有得分的检查点不足两个：使用 step-1000.pt 或 epoch-3.pt 这样的文件名即可识别。",
    ),
    "ev_band": ("band: 95% interval", "色带：95% 区间"),
    "ev_says_worse": (
        "After {since} the training went on ({curve} {from} to {to}) but {score} got worse by {amount} ({interval}): "
        "the last checkpoint is not the one to take.",
        "{since} 之后训练仍在进行（{curve} 从 {from} 到 {to}），但 {score} 变差了 {amount}（{interval}）："
        "不应选用最后一个检查点。",
    ),
    "ev_says_flat": (
        "After {since} the training went on ({curve} {from} to {to}) while {score} did not get measurably better "
        "({amount}, {interval}).",
        "{since} 之后训练仍在进行（{curve} 从 {from} 到 {to}），但 {score} 没有可测的改善（{amount}，{interval}）。",
    ),
    "ev_says_together": (
        "{curve} ({from} to {to}) and {score} got better together to the end: longer training may be worth it.",
        "{curve}（从 {from} 到 {to}）与 {score} 一直同步改善：继续训练可能仍有收益。",
    ),
    "ev_says_still": (
        "{curve} and {score} say the same: nothing was won towards the end of the training.",
        "{curve} 与{score} 结论一致：训练后期没有收益。",
    ),
    "ev_falls": ("{curve} improves here, {score} does not", "此区间 {curve} 仍在改善，{score} 没有"),
    # ranking, failures
    "ev_ranking": ("Checkpoints by score", "按得分排名"),
    "ev_rank": ("#", "#"),
    "ev_same": ("not told apart from the best", "与最佳无显著差别"),
    "ev_less": ("clearly behind", "显著落后"),
    "ev_failures": ("Failures by cause", "按原因归类的失败"),
    "ev_no_failures": ("No cell has failed.", "没有失败的单元。"),
    "ev_count": ("Cells", "单元数"),
    "ev_cause": ("Cause", "原因"),
    "ev_reason": ("Sentence", "说明"),
    "ev_examples": ("For example", "例如"),
    # the file
    "ev_report": ("Evaluation report", "评测报告"),
    "ev_made": ("Made {when} by headway", "由 headway 生成于 {when}"),
    "ev_outputs_at": ("Outputs", "输出位置"),
    "ev_language": ("中文", "English"),
    "ev_theme": ("Light or dark", "浅色 / 深色"),
    "ev_started": ("Started", "开始"),
    "ev_ended": ("Ended", "结束"),
    "ev_what_to_do": ("What to do: ", "处理办法："),
    # what the record says of an evaluation
    "said_bytes": (
        "{path} has {free_bytes} free; {needed_bytes} is needed.",
        "{path} 仅剩 {free_bytes}，需要 {needed_bytes}。",
    ),
    "said_inodes": (
        "{path} has {free} inodes free; {needed} are needed.",
        "{path} 仅剩 {free} 个 inode，需要 {needed} 个。",
    ),
    "said_invalid": (
        "{n} of {all} cells are not valid; see their reasons.",
        "{all} 个单元中有 {n} 个无效，原因见下。",
    ),
    "said_mend": (
        "Mend the cause, then `{command}`; when it is in the code, evaluate anew.",
        "请消除原因后运行 `{command}`；若原因在代码中，请重新发起评测。",
    ),
    "said_damaged": (
        "{n} published outputs were found damaged; see the cells.",
        "已发布的输出中发现损坏（{n}），见各单元。",
    ),
    "said_again": ("`{command}` makes them again.", "运行 `{command}` 重新生成。"),
    "said_forecast": (
        "What is still to come takes about {size} in {files} files, which does not fit.",
        "其余单元约需 {size}、{files} 个文件，目标位置放不下。",
    ),
    # why a cell failed
    "failed_exit": ("The command failed", "命令失败"),
    "failed_exception": ("The worker raised an error", "评测代码抛出异常"),
    "failed_timeout": ("Time limit of a cell", "单元超时"),
    "failed_killed": ("The process died", "进程意外终止"),
    "failed_invalid_output": ("An output is not valid", "输出无效"),
    "failed_no_score": ("No score", "没有得分"),
    "failed_load": ("The checkpoint could not be loaded", "检查点无法加载"),
    "failed_check": ("The user's check refused it", "未通过自定义检查"),
    "failed_damaged": ("Damaged later", "事后损坏"),
    # why a target is full
    "cause_no_space": ("No space left", "存储空间不足"),
    "cause_no_inodes": ("No inodes left", "inode 已用尽"),
    "cause_over_quota": ("Over quota", "超出配额"),
    "cause_read_only": ("Read-only file system", "文件系统只读"),
    "cause_no_permission": ("No permission to write", "没有写入权限"),
    "cause_io_error": ("Input/output error", "读写错误"),
    "cause_name_too_long": ("Name too long", "文件名过长"),
    "cause_too_many_open_files": ("Too many open files", "打开的文件过多"),
    "cause_stale_handle": ("Stale file handle", "文件句柄已失效（NFS）"),
    "cause_unmounted": ("Not mounted any more", "文件系统已卸载"),
    "cause_folder_limit": ("The folder holds no more files", "目录中的文件数已达上限"),
    "cause_deleted_open": ("Space held by deleted files that are still open", "空间被已删除但仍打开的文件占用"),
    "cause_missing": ("The folder is gone", "文件夹不存在"),
    "remedy_no_space": ("", "请释放该文件系统的空间，之后会自动继续。"),
    "remedy_no_inodes": ("", "请删除该文件系统上的文件（空间有余，inode 不足），之后会自动继续。"),
    "remedy_over_quota": ("", "请提高配额（headway project quota）或删除输出，之后会自动继续。"),
    "remedy_read_only": ("", "请将文件系统重新挂载为可写，之后会自动继续。"),
    "remedy_no_permission": ("", "请授予 headway 用户写入权限，之后会自动继续。"),
    "remedy_io_error": ("", "请检查磁盘或网络文件系统，恢复后会自动继续。"),
    "remedy_name_too_long": ("", "请缩短用例或检查点的名称，或换一个路径更短的目标文件夹。"),
    "remedy_too_many_open_files": ("", "请提高打开文件数上限（ulimit -n），之后会自动继续。"),
    "remedy_stale_handle": ("", "请重新挂载该网络文件系统，之后会自动继续。"),
    "remedy_unmounted": ("", "请重新挂载，之后会自动继续；或用 headway eval target 指定目标文件夹。"),
    "remedy_folder_limit": ("", "请换一个目标文件夹（headway eval target），或清理该文件夹。"),
    "remedy_deleted_open": ("", "请结束占用这些文件的进程，之后会自动继续。"),
    # states of an evaluation
    "state_queued": ("Queued", "排队中"),
    "state_running": ("Running", "运行中"),
    "state_paused": ("Paused", "已暂停"),
    "state_stopped": ("Stopped", "已停止"),
    "state_failed": ("Failed", "失败"),
    "state_succeeded": ("Succeeded", "成功"),
}


def of(language: str) -> dict[str, str]:
    """Every text of one language ("en" or "zh"), as the browser gets them."""
    at = 1 if language == "zh" else 0
    return {key: texts[at] for key, texts in TEXTS.items()}

"""Every word the console shows, in English and Chinese."""

from __future__ import annotations

from headway.console.dataset_texts import TEXTS as DATASET_TEXTS
from headway.report.words import TEXTS as REPORT_TEXTS

#: code -> name in that language
LANGUAGES = {"en": "English", "zh": "中文"}

#: key -> (English, Chinese); those of an evaluation, and of a full target, are the report's
_TEXTS: dict[str, tuple[str, str]] = {
    **REPORT_TEXTS,
    **DATASET_TEXTS,
    # login
    "login": ("Sign in", "登录"),
    "login_title": ("Sign in to headway", "登录 headway"),
    "login_hint": (
        "Use your access token. The administrator's is in the file admin.token of headway's home folder.",
        "请使用访问令牌。管理员令牌保存在 headway 主目录的 admin.token 文件中。",
    ),
    "token": ("Access token", "访问令牌"),
    "logout": ("Sign out", "退出登录"),
    "error_token": ("This token is not valid: unknown, revoked or expired.", "令牌无效：不存在、已吊销或已过期。"),
    "error_empty": ("Enter a token.", "请输入令牌。"),
    "error_away": ("The server does not answer. Try again soon.", "服务器没有响应，请稍后再试。"),
    "error_expired": ("Your session has ended. Sign in again.", "会话已结束，请重新登录。"),
    # header
    "project": ("Project", "项目"),
    "theme_auto": ("Theme: as the system", "主题：跟随系统"),
    "theme_light": ("Theme: light", "主题：浅色"),
    "theme_dark": ("Theme: dark", "主题：深色"),
    "switch_language": ("中文", "English"),
    "switch_language_hint": ("切换到中文", "Switch to English"),
    "skip": ("Skip to the runs", "跳到运行列表"),
    "live": ("Live", "实时"),
    "connecting": ("Connecting…", "连接中…"),
    "away": ("The server does not answer; trying again", "服务器没有响应，正在重试"),
    "no_project": (
        "You are not a member of any project yet. Ask an administrator to add you.",
        "您还不是任何项目的成员，请联系管理员添加。",
    ),
    # totals
    "running_now": ("Running", "运行中"),
    "waiting_now": ("Waiting", "等待中"),
    "total_cost": ("Cost so far", "累计费用"),
    "free_now": ("Free now", "当前空闲"),
    "nodes": ("{n} nodes", "{n} 个节点"),
    "node": ("1 node", "1 个节点"),
    "no_nodes": ("no node", "无节点"),
    "cpus": ("{free} of {all} CPUs", "CPU {free} / {all}"),
    "accelerators": ("{free} of {all} GPUs", "GPU {free} / {all}"),
    "storage": ("Stored", "已存储"),
    "files": ("{n} files", "{n} 个文件"),
    "files_of": ("{n} of {limit} files", "{n} / {limit} 个文件"),
    "bytes_of": ("of {limit}", "上限 {limit}"),
    "by_datasets": ("{size} of it datasets", "其中数据集 {size}"),
    # runs
    "runs": ("Runs", "运行"),
    "filter": ("Filter by name, number, spec, node or person", "按名称、编号、规格、节点或人员筛选"),
    "show_all": ("All", "全部"),
    "show_live": ("Live", "进行中"),
    "show_waiting": ("Waiting", "等待"),
    "show_failed": ("Failed", "失败"),
    "show_done": ("Done", "已完成"),
    "run": ("Run", "运行"),
    "name": ("Name", "名称"),
    "kind": ("For", "用途"),
    "state": ("State", "状态"),
    "spec": ("Spec", "规格"),
    "node_column": ("Node", "节点"),
    "started": ("Started", "开始时间"),
    "duration": ("Duration", "时长"),
    "cost": ("Cost", "费用"),
    "older": ("Show older runs", "显示更早的运行"),
    "no_match": ("No run matches the filter.", "没有符合筛选条件的运行。"),
    "clear_filter": ("Clear the filter", "清除筛选"),
    "no_runs": ("No runs yet", "还没有运行"),
    "no_runs_hint": (
        "Start one from a terminal; it appears here by itself.",
        "在终端中启动一个运行，它会自动出现在这里。",
    ),
    "unnamed": ("unnamed", "未命名"),
    # detail
    "log_run": ("Run log", "运行日志"),
    "log_diag": ("Diagnostic log", "诊断日志"),
    "tab_metrics": ("Metrics", "指标"),
    "tab_checkpoints": ("Checkpoints", "检查点"),
    "tab_attempts": ("Attempts", "尝试记录"),
    "no_attempts": ("The run has not been placed yet.", "运行尚未被调度。"),
    "used": ("What it used", "资源使用"),
    "used_cpus": ("CPUs", "CPU"),
    "used_cores": ("busy", "核"),
    "used_memory": ("Memory", "内存"),
    "used_disk": ("Disk", "磁盘读写"),
    "used_network": ("Network of the machine", "机器网络"),
    "used_gpu": ("GPU busy", "GPU 利用率"),
    "used_gpu_memory": ("GPU memory", "GPU 显存"),
    "node_number": ("node {n}", "节点 {n}"),
    "cut_metrics": ("The first {n} of {all} metrics.", "显示 {all} 个指标中的前 {n} 个。"),
    "place": ("On", "节点"),
    "ended_how": ("End", "结束原因"),
    "attempt_live": ("still lives", "进行中"),
    "reclaim_asked": ("Asked to leave: {why}", "收到回收通知：{why}"),
    "no_metrics": (
        "No metrics yet. A line such as loss=0.12 makes one.",
        "暂无指标。输出 loss=0.12 这样的行即可产生指标。",
    ),
    "no_checkpoints": ("No checkpoints yet.", "暂无检查点。"),
    "made_failed": ("It cannot be read: {why}", "无法读取：{why}"),
    "checkpoint": ("Checkpoint", "检查点"),
    "step": ("Step", "步"),
    "epoch": ("Epoch", "轮"),
    "size": ("Size", "大小"),
    "metrics": ("Metrics", "指标"),
    "checkpoint_valid": ("valid", "有效"),
    "checkpoint_invalid": ("invalid", "无效"),
    "checkpoint_removed": ("removed", "已清理"),
    "pick": ("Pick a run to see its log.", "选择一个运行以查看日志。"),
    "log_empty_waiting": (
        "The run has not started. Its lines appear here as they are written.",
        "运行尚未开始，日志产生后会实时显示在这里。",
    ),
    "log_empty": ("No lines yet.", "暂无日志。"),
    "log_empty_ended": ("The run has ended and wrote nothing to this log.", "运行已结束，没有写入此日志。"),
    "log_end": ("End of the log", "日志结束"),
    "log_paused": ("Jump to the newest line", "跳到最新一行"),
    "log_failed": ("The log cannot be read: {why}", "无法读取日志：{why}"),
    "log_earlier": ("Older lines: search, or download the log.", "更早的日志：请搜索或下载。"),
    "log_search": ("Search the log", "搜索日志"),
    "log_search_hint": (
        "Text; small letters find capitals too. Between slashes: a regular expression, such as /loss=0\\.[01]/",
        "输入文本（小写也匹配大写）；放在斜杠之间则为正则表达式，例如 /loss=0\\.[01]/",
    ),
    "log_rank": ("Rank", "进程号"),
    "log_download": ("Download", "下载"),
    "log_download_hint": ("The whole log up to now, as a text file", "以文本文件下载截至目前的全部日志"),
    "log_download_found": ("The lines found, as a text file", "以文本文件下载匹配的行"),
    "log_no_match": ("No line matches.", "没有匹配的行。"),
    "log_no_match_yet": ("No line matches yet.", "暂无匹配的行。"),
    "command": ("Command", "命令"),
    "submitted_by": ("Submitted by", "提交者"),
    "attempts": ("Attempt", "尝试"),
    "exit_code": ("Exit code", "退出码"),
    "outputs": ("Outputs", "输出"),
    "datasets": ("Datasets", "数据集"),
    "commit": ("Code", "代码"),
    "dirty": ("with changes not committed", "含未提交的改动"),
    "processes": ("Processes", "进程数"),
    "nodes_asked": ("Nodes", "节点数"),
    "billing": ("Billing", "计费方式"),
    "billing_spot": ("spot", "竞价"),
    "billing_subscription": ("subscription", "包年包月"),
    "reclaims": ("Reclaimed", "被回收次数"),
    "priority": ("Priority", "优先级"),
    "max_duration": ("Limit", "时长上限"),
    "waits_for": ("After", "依赖"),
    "template": ("Template", "模板"),
    "max_wait": ("Limit with waiting", "含等待时长上限"),
    "tags": ("Tags", "标签"),
    "compat": ("Names of", "兼容平台"),
    "on_each_node": ("{n} on each node", "每节点 {n} 个"),
    "seconds": ("s", "秒"),
    "minutes": ("min", "分钟"),
    "hours": ("h", "小时"),
    "days": ("d", "天"),
    # what can be done to a run
    "do_stop": ("Stop", "停止"),
    "do_stop_yes": ("Stop it", "确认停止"),
    "do_kill": ("End now", "立即结束"),
    "do_kill_yes": ("End it now", "确认立即结束"),
    "do_pause": ("Pause", "暂停"),
    "do_pause_yes": ("Pause it", "确认暂停"),
    "do_first": ("To the front", "移到最前"),
    "do_hold": ("Hold", "挂起"),
    "do_release": ("Release", "释放"),
    "do_retry": ("Retry", "重试"),
    "do_clone": ("Clone", "克隆"),
    "do_cancel": ("Cancel", "取消"),
    "about_stop": ("End this run", "结束此运行"),
    "about_kill": ("Do not wait for the grace period", "不再等待宽限期"),
    "about_pause": ("Save, leave the place, and wait to be released", "保存后让出资源，等待释放"),
    "about_first": (
        "Before all others of its project and priority that wait",
        "排到本项目同优先级的其他等待者之前",
    ),
    "about_hold": ("Keep its turn, but do not start it", "保留排队，但暂不启动"),
    "about_release": ("Let it start when its turn comes", "轮到时即可启动"),
    "about_retry": ("Once more from its newest valid checkpoint", "从最新的有效检查点继续重试"),
    "about_clone": ("The same request as a new run", "以相同的请求提交新的运行"),
    "ask_stop": (
        "Stop run {run}? It has {grace} to save and leave.",
        "停止运行 {run}？它有 {grace}的时间保存并退出。",
    ),
    "ask_kill": (
        "End run {run} now? What it has not saved is lost.",
        "立即结束运行 {run}？尚未保存的内容将丢失。",
    ),
    "ask_pause": (
        "Pause run {run}? It has {grace} to save, gives its place away, and waits until it is released.",
        "暂停运行 {run}？它有 {grace}的时间保存，随后让出资源，等待释放。",
    ),
    "done_stop": ("Asked to stop.", "已请求停止。"),
    "done_kill": ("Asked to end now.", "已请求立即结束。"),
    "done_pause": ("Asked to pause.", "已请求暂停。"),
    "done_first": ("Moved to the front.", "已移到最前。"),
    "done_hold": ("Held.", "已挂起。"),
    "done_release": ("Released.", "已释放。"),
    "done_retry": ("Queued again.", "已重新排队。"),
    "done_clone": ("Submitted as run {run}.", "已提交为运行 {run}。"),
    "refused": ("Not done: ", "操作未执行："),
    # how an attempt ended
    "ended_done": ("done", "完成"),
    "ended_exit": ("error of the program", "程序报错退出"),
    "ended_killed": ("killed by a signal", "被信号终止"),
    "ended_not_started": ("could not be started", "无法启动"),
    "ended_prepare_failed": ("could not be made ready", "准备失败"),
    "ended_stopped": ("stopped", "已停止"),
    "ended_time_limit": ("limit of duration", "超过时长上限"),
    "ended_oom_kill": ("out of memory", "内存不足"),
    "ended_fenced": ("a later attempt took over", "已被后续尝试取代"),
    "ended_runner_lost": ("runner lost", "运行器丢失"),
    "ended_node_lost": ("node lost", "节点失联"),
    "ended_peer_failed": ("another node failed", "其他节点失败"),
    "ended_reclaimed": ("reclaimed", "被回收"),
    "ended_paused": ("paused", "已暂停"),
    "ended_idle_output": ("no output for too long", "长时间无输出"),
    "ended_no_progress": ("no progress", "指标无改善"),
    "ended_nan_metric": ("metric is NaN", "指标出现 NaN"),
    "ended_disk_limit": ("limit of disk", "超过磁盘上限"),
    "ended_hang": ("hang", "卡死"),
    "ended_wait_limit": ("limit with waiting", "超过含等待的时长上限"),
    "ended_dependency": ("a run before it failed", "依赖的运行未成功"),
    # what to do about the end of a run; RUN is its number, and English is the server's own
    "remedy_exit_run": ("", "请查看运行日志的最后几行：`headway logs RUN`。"),
    "remedy_killed_run": ("", "请检查机器内存是否不足（`dmesg`），或是否有人终止了进程。"),
    "remedy_not_started_run": ("", "请确认程序在该环境中存在且可执行。"),
    "remedy_prepare_failed_run": ("", "请查看诊断日志：`headway logs RUN --kind diag`。"),
    "remedy_time_limit_run": ("", "请提高时长上限，或减少工作量。"),
    "remedy_oom_kill_run": ("", "请选择内存更大的规格，或减小批大小。"),
    "remedy_runner_lost_run": ("", "会按重试次数重新调度；请检查节点是否重启过。"),
    "remedy_node_lost_run": ("", "会重新调度；请检查该节点。"),
    "remedy_idle_output_run": (
        "",
        "请用 `headway logs RUN` 查看最后的输出；让程序定期输出，或提高 limits.idle_output。",
    ),
    "remedy_no_progress_run": (
        "",
        "请使用最佳检查点（`headway job checkpoints RUN`），或放宽 limits.no_progress。",
    ),
    "remedy_nan_metric_run": (
        "",
        "请降低学习率或裁剪梯度，再从最后的检查点继续：`headway job retry RUN`。",
    ),
    "remedy_disk_limit_run": ("", "请减少保留的检查点（keep_last）或输出，或提高 limits.disk_bytes。"),
    "remedy_hang_run": ("", "各进程的调用栈在诊断日志中：`headway logs RUN --kind diag`。"),
    "remedy_wait_limit_run": ("", "请提高 max_wait 或优先级，或减少所需资源。"),
    "remedy_dependency_run": ("", "请先重新运行它所依赖的任务，再运行：`headway job retry RUN`。"),
    # the queue
    "queue": ("Queue", "排队"),
    "queue_more": ("{n} more wait.", "另有 {n} 个在等待。"),
    "queue_priority": ("priority {n}", "优先级 {n}"),
    "queue_aged": ("(counts as {n} by waiting)", "（因等待提升至 {n}）"),
    # evaluations
    "evaluations": ("Evaluations", "评测"),
    "no_evaluations": ("No evaluations yet", "还没有评测"),
    "no_evaluations_hint": (
        "An evaluation tries every checkpoint of a job on every case.",
        "评测会在每个用例上检验训练任务的每个检查点。",
    ),
    "cells_valid": ("{valid} of {all} cells valid", "{valid} / {all} 个单元有效"),
    "cells_running": ("{n} running", "{n} 个运行中"),
    "cells_waiting": ("{n} waiting", "{n} 个等待"),
    "cells_undone": ("{n} not done", "{n} 个未完成"),
    "cells_invalid": ("{n} invalid", "{n} 个无效"),
    "what_to_do": ("What to do: ", "处理办法："),
    "of_job": ("of run {n}", "来自运行 {n}"),
    "ev_loading": ("The evaluation is being read…", "正在读取评测……"),
    "open_evaluation": ("Open: scores, outputs, curves", "查看得分、输出与曲线"),
    "all_runs": ("All runs", "全部运行"),
    "skip_to_evaluation": ("Skip to the evaluation", "跳到评测"),
    # endpoints
    "endpoints": ("Endpoints", "在线服务"),
    "no_endpoints": ("No endpoints yet", "还没有在线服务"),
    "no_endpoints_hint": ("An endpoint answers requests with a model version.", "在线服务使用模型版本响应请求。"),
    "copy": ("Copy the address", "复制地址"),
    "copied": ("Copied", "已复制"),
    "replicas_ready": ("{ready} of {all} replicas ready", "{ready} / {all} 个副本就绪"),
    # states
    "state_held": ("Held", "已挂起"),
    "state_queued": ("Queued", "排队中"),
    "state_starting": ("Starting", "启动中"),
    "state_running": ("Running", "运行中"),
    "state_stopping": ("Stopping", "停止中"),
    "state_succeeded": ("Succeeded", "成功"),
    "state_failed": ("Failed", "失败"),
    "state_stopped": ("Stopped", "已停止"),
    "state_paused": ("Paused", "已暂停"),
    "state_ready": ("Ready", "就绪"),
    # what a run is for
    "kind_job": ("job", "训练任务"),
    "kind_evaluation": ("evaluation", "评测"),
    "kind_endpoint": ("endpoint", "在线服务"),
    "kind_workspace": ("workspace", "开发环境"),
}


class Texts:
    """The texts of one language; an unknown code is English."""

    def __init__(self, language: str) -> None:
        self.language = language if language in LANGUAGES else "en"
        self._at = 1 if self.language == "zh" else 0

    @property
    def tag(self) -> str:
        """The language tag of HTML and of dates and numbers."""
        return "zh-CN" if self.language == "zh" else "en"

    def __call__(self, key: str, **values: object) -> str:
        """The text, with `{name}` replaced. Raises KeyError for a key that does not exist."""
        text = _TEXTS[key][self._at]
        return text.format(**values) if values else text

    def all(self, *prefixes: str) -> dict[str, str]:
        """The texts whose keys begin so, by their keys; for what is drawn in the browser."""
        return {key: text[self._at] for key, text in _TEXTS.items() if key.startswith(prefixes)}

    def known(self, prefix: str, code: str | None) -> str:
        """The text `prefix_code`; the code itself where there is none (a newer server's)."""
        return _TEXTS.get(f"{prefix}_{code}", (code or "",) * 2)[self._at]


def preferred(accept_language: str) -> str:
    """The language that a browser asks for (Accept-Language), "en" when it asks for none of ours."""
    best, best_weight = "en", 0.0
    for part in accept_language.split(","):
        tag, _, weight = part.strip().partition(";q=")
        try:
            value = float(weight) if weight else 1.0
        except ValueError:
            continue
        language = tag.split("-")[0].lower()
        if language in LANGUAGES and value > best_weight:
            best, best_weight = language, value
    return best

"""Claude's background tasks, and what may follow a result (design/native-harness.md, section 5, Claude).

A good result is a candidate while it is *fresh*: it is the last record, or only the shutdown of every background shell
task follows, in this order: an inventory that is empty, then for each task that it is killed and that it has stopped.
"""

from dataclasses import dataclass
from enum import Enum, auto
from typing import Final

from adapter_svc.native.framing import Record
from adapter_svc.native.shapes import child, is_number, is_one_of, name, need, number, objects, optional_text, text

ENDED_STATUSES: Final = frozenset({"completed", "failed", "killed"})
"""Statuses of `task_updated` after which a task is over."""
NOTIFIED_STATUSES: Final = frozenset({"completed", "failed", "stopped"})
SHELL_TOOL: Final = "Bash"


class _Step(Enum):
    RUNNING = auto()
    KILLED = auto()


@dataclass(slots=True)
class _Task:
    tool_use_id: str
    from_shell: bool


class BackgroundTasks:
    """The tasks that have started and not ended; `left` counts them."""

    def __init__(self) -> None:
        self._tasks: dict[str, _Task] = {}
        self._shutdown: dict[str, _Step] | None = None

    @property
    def left(self) -> int:
        """How many have started and not ended."""
        return len(self._tasks)

    def start(self, value: Record, tool_of: dict[str, str]) -> None:
        """`task_started`; `tool_of` names the tool of each tool use so far."""
        task_id, tool_use = name(value, "task_id"), optional_text(value, "tool_use_id")
        need(task_id not in self._tasks, "a background task starts twice")
        self._tasks[task_id] = _Task(tool_use, tool_of.get(tool_use) == SHELL_TOOL)

    def update(self, value: Record) -> None:
        """`task_updated` before a result."""
        task_id, status = name(value, "task_id"), child(value, "patch").get("status")
        if is_one_of(status, ENDED_STATUSES):
            self._tasks.pop(task_id, None)

    def notify(self, value: Record) -> None:
        """`task_notification` before a result."""
        need(text(value, "status") in NOTIFIED_STATUSES, "a notification of an unknown status")
        self._tasks.pop(name(value, "task_id"), None)

    def result(self) -> None:
        """A result came: a shutdown may begin."""
        self._shutdown = None

    def shuts_down(self, subtype: str, value: Record) -> bool:
        """Whether this record, after a good result, is the next of the shutdown of every task that is left."""
        if subtype == "background_tasks_changed":
            return self._begin(value)
        task_id = name(value, "task_id")
        step = None if self._shutdown is None else self._shutdown.get(task_id)
        if self._shutdown is None or step is None:
            return False
        if subtype == "task_updated" and step is _Step.RUNNING and _is_killed(child(value, "patch")):
            self._shutdown[task_id] = _Step.KILLED
            return True
        return subtype == "task_notification" and step is _Step.KILLED and self._stop(task_id, value)

    def _begin(self, value: Record) -> bool:
        possible = bool(self._tasks) and all(task.from_shell for task in self._tasks.values())
        if objects(value, "tasks") or self._shutdown is not None or not possible:
            return False
        self._shutdown = dict.fromkeys(self._tasks, _Step.RUNNING)
        return True

    def _stop(self, task_id: str, value: Record) -> bool:
        if text(value, "status") != "stopped" or value.get("tool_use_id") != self._tasks[task_id].tool_use_id:
            return False
        del self._tasks[task_id]
        return True


def _is_killed(patch: Record) -> bool:
    return patch.get("status") == "killed" and is_number(patch.get("end_time"))


def check_telemetry(subtype: str, value: Record) -> None:
    """Raises Malformed where a known record of telemetry lacks what it is known for; it decides nothing."""
    match subtype:
        case "api_retry":
            number(value, "attempt")
            number(value, "max_retries")
            number(value, "retry_delay_ms")
        case "permission_denied":
            name(value, "tool_name")
        case "background_tasks_changed":
            for task in objects(value, "tasks"):
                name(task, "task_id")
        case "task_started" | "task_progress":
            name(value, "task_id")
        case "task_updated":
            name(value, "task_id")
            child(value, "patch")
        case "task_notification":
            name(value, "task_id")
            text(value, "status")
        case _:
            return

"""The live display of progress on a terminal, drawn with rich."""

from __future__ import annotations

from typing import TYPE_CHECKING, TextIO, cast

from rich.columns import Columns
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from agentmath.telemetry.quiet_stream import QuietStream
from agentmath.telemetry.words import duration

if TYPE_CHECKING:
    from agentmath.telemetry.progress import Progress

_REFRESH_PER_SECOND = 2
_STYLES = {"accuracy": "bold green", "reward": "bold"}


class LiveDisplay:
    """Redraws a Progress a few times a second until it is stopped; the last picture stays."""

    def __init__(self, progress: Progress, stream: QuietStream) -> None:
        console = Console(file=cast(TextIO, stream), force_terminal=True)
        self._progress = progress
        self._live = Live(
            console=console,
            get_renderable=self.render,
            refresh_per_second=_REFRESH_PER_SECOND,
            redirect_stdout=False,
            redirect_stderr=False,
        )

    def start(self) -> None:
        self._live.start()

    def refresh(self) -> None:
        self._live.refresh()

    def stop(self) -> None:
        self._live.stop()

    def message(self, text: str) -> None:
        """Print above the display."""
        self._live.console.print(Text(text))

    def render(self) -> RenderableType:
        """Three lines: how far, how well, and where the time goes."""
        progress = self._progress
        left = progress.remaining_seconds
        head = Table.grid(padding=(0, 2))
        head.add_row(
            Text(progress.title, style="bold"),
            ProgressBar(total=max(progress.total_steps, 1), completed=progress.step, width=32),
            Text(f"{progress.step}/{progress.total_steps}"),
            Text(duration(progress.elapsed_seconds), style="dim"),
            Text("" if left is None else f"{duration(left)} left", style="cyan"),
        )
        lines: list[RenderableType] = [head]
        if values := progress.shown():
            lines.append(self._values(values))
        if stages := progress.stages():
            lines.append(Text("  ".join(f"{name} {seconds:.2f} s" for name, seconds in stages), style="dim"))
        return Group(*lines)

    def _values(self, values: list[tuple[str, str]]) -> RenderableType:
        cells: list[RenderableType] = []
        for label, text in values:
            cell = Text(no_wrap=True).append(f"{label} ", style="dim").append(text, style=_STYLES.get(label, ""))
            if label == "accuracy":
                cell.append(f" {self._progress.sparkline()}", style="green")
            cells.append(cell)
        return Columns(cells, padding=(0, 2))

"""The screen of `duly top`, in Textual. It draws what `panes` makes of what `desk` has read; reading and acting go through one thread."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import ClassVar, TypeVar

from rich.text import Text
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.coordinate import Coordinate
from textual.screen import ModalScreen
from textual.widgets import DataTable, Input, Static

from duly.cli import output
from duly.cli.top import desk as desks
from duly.cli.top.desk import Deed, Desk, Reading
from duly.cli.top.panes import PANES, Cell, Pane, Row, Shown, as_ascii, filtered, headline, tabs
from duly.domain.errors import DulyError

T = TypeVar("T")

# The strip of the next hour is computed by the server, and a minute wide: no need to ask every second.
STRIP_EVERY = 15
_STYLES = {output.RED: "red", output.GREEN: "green", output.YELLOW: "yellow", output.BLUE: "blue", output.GREY: "bright_black"}
KEYS = "/ filter  : command  enter show  l logs  w why  r retry  c cancel  p pause  space freeze  ? help  q quit"
HELP = """1 … 7, ← →   another pane              j k ↑ ↓   another row
enter        all about it              l         its last log lines
w            why it stands there       /         show only rows with these words
r            run it again              c         cancel it
p            pause its job             u         let its job fire again
space        freeze, and go on         t         light or dark
esc          close, or forget the filter         q  leave

After `:` — a pane's name; retry, cancel, discard RUN; pause, resume, run, skip JOB;
without a name it is about the row. What changes something asks first."""


class Sheet(ModalScreen[None]):
    """A text to read; any of its keys closes it."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,q,enter", "dismiss", "close")]

    def __init__(self, title: str, text: str) -> None:
        super().__init__()
        self._title, self.text = title, text

    def compose(self) -> ComposeResult:
        """The text, with its title above it."""
        with VerticalScroll(id="sheet"):
            yield Static(Text(self._title, style="bold"))
            yield Static(Text(self.text))


class Question(ModalScreen[bool]):
    """Asks, and is answered with y; anything else is a no."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("y", "answer(True)", "yes"), Binding("n,escape,q,enter", "answer(False)", "no")]

    def __init__(self, question: str) -> None:
        super().__init__()
        self.question = question

    def compose(self) -> ComposeResult:
        """The question."""
        yield Static(Text(f"{self.question}  [y/N]"), id="question")

    def action_answer(self, yes: bool) -> None:
        """Close with the answer."""
        _ = self.dismiss(yes)  # not awaited: it waits for this very key to be done with


class Top(App[None]):
    """The live view. `every` None leaves it to the caller to `look`."""

    ENABLE_COMMAND_PALETTE = False
    CSS = """
    #summary { text-style: bold; } #strip, #keys, #tabs, #told { height: 1; }
    DataTable { height: 1fr; } #line { display: none; height: 1; border: none; padding: 0; }
    Sheet, Question { align: center middle; }
    #sheet { width: 90%; max-height: 90%; height: auto; padding: 1 2; background: $surface; border: round $primary; }
    #question { width: auto; max-width: 90%; padding: 1 2; background: $surface; border: round $warning; }
    .ascii #sheet, .ascii #question { border: ascii $primary; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        *(Binding(str(nth + 1), f"pane({nth})", pane.name, show=False) for nth, pane in enumerate(PANES)),
        Binding("left", "other(-1)", "before", show=False, priority=True),
        Binding("right", "other(1)", "after", show=False, priority=True),
        Binding("j", "row(1)", "down", show=False),
        Binding("k", "row(-1)", "up", show=False),
        Binding("l", "sheet('logs')", "logs"),
        Binding("w", "sheet('why')", "why"),
        Binding("r", "deed('retry')", "retry"),
        Binding("c", "deed('cancel')", "cancel"),
        Binding("p", "deed('pause')", "pause"),
        Binding("u", "deed('resume')", "resume"),
        Binding("slash", "line('/')", "filter"),
        Binding("colon", "line(':')", "command"),
        Binding("space", "freeze", "freeze"),
        Binding("t", "theme", "theme", show=False),
        Binding("question_mark", "help", "help"),
        Binding("escape", "forget", "close", show=False),
        Binding("q", "quit", "quit"),
    ]

    def __init__(self, desk: Desk, *, every: float | None = 2.0, is_ascii: bool = False) -> None:
        super().__init__()
        self._desk = desk
        self._every = every
        self._is_ascii = is_ascii
        self._thread = ThreadPoolExecutor(1, "duly-top")
        self._at = 0
        self._filter = ""
        self._prompt = ""
        self._looks = 0
        self._is_looking = self._is_frozen = False
        self._reading: Reading | None = None
        self._shown = Shown((), [])
        self._rows: list[Row] = []
        self._strip = ""
        self._trouble: str | None = None

    # ------------------------------------------------------------ the life of it

    def compose(self) -> ComposeResult:
        """Counts, the next hour, the panes, the rows, what was said, and the keys."""
        yield Static(id="summary")
        yield Static(id="strip")
        yield Static(id="tabs")
        table: DataTable[Text] = DataTable(cursor_type="row", zebra_stripes=True)
        yield table
        yield Static(id="told")
        yield Input(id="line")
        yield Static(Text(KEYS, style="bright_black"), id="keys")

    async def on_mount(self) -> None:
        """Look at once, and then again and again."""
        self.set_class(self._is_ascii, "ascii")
        self.query_one(DataTable).focus()
        self._paint()
        if self._every is not None:
            self.set_interval(self._every, self._tick)
            self.call_later(self.look)

    def on_unmount(self) -> None:
        """The thread ends with what it is at."""
        self._thread.shutdown(wait=False, cancel_futures=True)

    async def _tick(self) -> None:
        if not self._is_frozen and not self._is_looking:
            await self.look()

    async def look(self) -> None:
        """Read what is shown, and show it. A server that does not answer is said, and what was there stays."""
        self._is_looking = True
        pane, with_strip = PANES[self._at], self._looks % STRIP_EVERY == 0
        try:
            reading = await self._there(lambda: self._desk.read(pane, with_strip))
        except DulyError as error:
            self._trouble = f"✗ {error.code} {error.message}"
        else:
            self._trouble = None
            self._looks += 1
            if pane is PANES[self._at]:
                self._reading = reading
                self._strip = reading.strip if reading.strip is not None else self._strip
                self._shown = reading.shown
        finally:
            self._is_looking = False
        self._paint()

    async def _there(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)

    # ------------------------------------------------------------ drawing

    def _paint(self) -> None:
        stats = None if self._reading is None else self._reading.stats
        state = "frozen · " if self._is_frozen else ""
        readonly = "only looks · " if self._desk.is_readonly else ""
        told = "asking …" if stats is None else headline(stats)
        self._put("#summary", [Cell(f"duly top · {self._desk.url} · {readonly}{state}{told}")])
        self._put("#strip", [Cell(self._strip, output.BLUE)])
        self._put("#tabs", tabs(PANES, stats, self._at))
        if self._trouble is not None:
            self._put("#told", [Cell(self._trouble, output.RED)])
        self._fill(filtered(self._shown, self._filter))

    def _put(self, where: str, cells: list[Cell]) -> None:
        self.query_one(where, Static).update(Text.assemble(*(self._text(cell) for cell in cells)))

    def _text(self, cell: Cell) -> Text:
        text = as_ascii(cell.text) if self._is_ascii else cell.text
        return Text(text, style=_STYLES.get(cell.colour or "", ""), no_wrap=True, overflow="ellipsis")

    def _fill(self, shown: Shown) -> None:
        """The rows anew; the one that was chosen stays so while it is there."""
        table: DataTable[Text] = self.query_one(DataTable)
        chosen, place, top = self.chosen, table.cursor_row, table.scroll_y
        table.clear(columns=True)
        table.add_columns(*(head.upper() for head in shown.heads))
        for row in shown.rows:
            table.add_row(*(self._text(cell) for cell in row.cells), key=row.key)
        keys = [row.key for row in shown.rows]
        if chosen is not None and chosen.key in keys:
            place = keys.index(chosen.key)
        self._rows = shown.rows
        if keys:
            table.cursor_coordinate = Coordinate(min(place, len(keys) - 1), 0)
            table.scroll_to(y=top, animate=False)
        elif self._trouble is None and self._reading is not None:
            self.say(f"No row has {self._filter!r} in it." if self._filter else PANES[self._at].empty)

    @property
    def chosen(self) -> Row | None:
        """The row that keys act on."""
        at = self.query_one(DataTable).cursor_row
        return self._rows[at] if 0 <= at < len(self._rows) else None

    def say(self, text: str, colour: str | None = None) -> None:
        """A remark below the rows."""
        self._put("#told", [Cell(output.one_line(text), colour)])

    # ------------------------------------------------------------ keys

    async def action_pane(self, nth: int) -> None:
        """Another pane."""
        self._at, self._shown, self._filter = nth, Shown((), []), ""
        self.say("")
        await self.look()

    async def action_other(self, by: int) -> None:
        """The pane beside it."""
        if not self._prompt:
            await self.action_pane((self._at + by) % len(PANES))

    def action_row(self, by: int) -> None:
        """The row above or below."""
        table: DataTable[Text] = self.query_one(DataTable)
        table.move_cursor(row=max(0, min(table.cursor_row + by, len(self._rows) - 1)))

    async def on_data_table_row_selected(self) -> None:
        """Enter: all about it."""
        await self.action_sheet("show")

    async def action_sheet(self, about: str) -> None:
        """What a row is about, why it stands there, or what it logged."""
        row = self.chosen
        if row is None:
            return
        ask = {"show": self._desk.show, "why": self._desk.why, "logs": self._desk.logs}[about]
        try:
            text = await self._there(lambda: ask(row))
        except DulyError as error:
            self._refuse(error)
        else:
            await self.push_screen(Sheet(f"{about}: {row.run or row.key}", as_ascii(text) if self._is_ascii else text))

    async def action_deed(self, verb: str) -> None:
        """Something that changes something, on the chosen row; asked first."""
        try:
            await self._ask(desks.deed_on(verb, self.chosen))
        except DulyError as error:
            self._refuse(error)

    async def _ask(self, deed: Deed) -> None:
        async def answered(yes: bool | None) -> None:
            if yes:
                await self.do(deed)
            else:
                self.say("Nothing was changed.")

        if self._desk.is_readonly:
            self.say("This screen only looks: start it without --readonly to act.", output.YELLOW)
        else:
            await self.push_screen(Question(deed.question), answered)

    async def do(self, deed: Deed) -> None:
        """Do it, and look what became of it."""
        try:
            told = await self._there(lambda: self._desk.do(deed))
        except DulyError as error:
            self._refuse(error)
            return
        await self.look()
        self.say(told, output.GREEN)

    def _refuse(self, error: DulyError) -> None:
        self.say(f"✗ {error.code} {error.message} {error.hint or ''}".rstrip(), output.RED)

    def action_line(self, prompt: str) -> None:
        """A line to type in: words to find, or a command."""
        self._prompt = prompt
        line = self.query_one("#line", Input)
        line.value, line.placeholder = (self._filter if prompt == "/" else ""), "words to find" if prompt == "/" else "pause nightly-report"
        line.display = True
        line.focus()

    def on_input_changed(self, event: Input.Changed) -> None:
        """What is filtered is filtered while one types."""
        if self._prompt == "/":
            self._filter = event.value
            self.say("")
            self._fill(filtered(self._shown, self._filter))

    async def on_input_submitted(self, event: Input.Submitted) -> None:
        """The line is done."""
        prompt, text = self._prompt, event.value.strip()
        self._close_line()
        if prompt != ":" or not text:
            return
        try:
            meant = desks.command(text, self.chosen)
        except DulyError as error:
            self._refuse(error)
            return
        if meant is None:
            self.exit()
        elif isinstance(meant, Pane):
            await self.action_pane(PANES.index(meant))
        else:
            await self._ask(meant)

    def _close_line(self) -> None:
        self._prompt = ""
        self.query_one("#line", Input).display = False
        self.query_one(DataTable).focus()

    def action_forget(self) -> None:
        """Close the line, and forget the filter."""
        self._close_line()
        self._filter = ""
        self._paint()

    def action_freeze(self) -> None:
        """Nothing moves until it is pressed again."""
        self._is_frozen = not self._is_frozen
        self._paint()

    def action_theme(self) -> None:
        """Light or dark."""
        self.theme = "textual-light" if self.theme != "textual-light" else "textual-dark"

    async def action_help(self) -> None:
        """The keys."""
        await self.push_screen(Sheet("duly top", as_ascii(HELP) if self._is_ascii else HELP))

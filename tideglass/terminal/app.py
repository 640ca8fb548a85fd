"""The terminal view of a job: tables one goes through with keys, refreshed from the job directory."""

from __future__ import annotations

from functools import partial
from typing import ClassVar

from rich.text import Text
from textual import work
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.screen import ModalScreen, Screen
from textual.widgets import DataTable, Footer, Static, TabbedContent, TabPane

from tideglass.job.directory import JobDirectory
from tideglass.terminal.details import detail, finding_lines, head_lines, why_lines
from tideglass.terminal.job_snapshot import JobSnapshot, read_snapshot
from tideglass.terminal.tables import SECTIONS, Section, TableRow, sorted_rows

#: A run writes its status as often.
REFRESH_SECONDS = 2.0

_KEYS = """\
left, right, 1 to 6  another table
up, down             another row
enter                into a step, partition, output, substream …
escape, left         back
s                    sort by the next column one can sort by
w                    why there is no output: all findings
r                    read now; it is read every two seconds
q                    leave; the job goes on

Times of day are UTC. A watermark nobody knows is "-", one at the
end of the input is "end".

delay  newest arrival of the partition minus its watermark
lag    newest arrival of the job minus the watermark of the step
ooo    adjusted or dropped because out of order
bad    refused by the deserializer
"""


def _text(lines: list[str]) -> Text:
    return Text("\n".join(lines))


class TablesScreen(Screen[None]):
    """All tables, one a tab, below what is known of the job as a whole."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("left", "tab(-1)", "table", show=False, priority=True),
        Binding("right", "tab(1)", "table", show=False, priority=True),
        *(Binding(str(n), f"tab_at({n - 1})", show=False) for n in range(1, len(SECTIONS) + 1)),
        Binding("s", "sort", "sort"),
    ]

    def __init__(self) -> None:
        super().__init__()
        self._orders: dict[str, str | None] = {each.name: None for each in SECTIONS}

    def compose(self) -> ComposeResult:
        yield Static(id="head")
        yield Static(id="why")
        with TabbedContent(id="tabs"):
            for each in SECTIONS:
                with TabPane(each.name, id=each.name.lower()):
                    yield DataTable[Text](id=f"{each.name.lower()}-table", cursor_type="row", cell_padding=0)
        yield Footer()

    def on_mount(self) -> None:
        for each in SECTIONS:
            table = self._table(each)
            for place, column in enumerate(each.columns):
                justify = "right" if column.right else "left"
                title = Text(column.title, justify=justify)
                table.add_column(title, width=column.width, key=f"column {place}")
                table.add_column("", width=1, key=f"gap {place}")
        self._table(SECTIONS[0]).focus()

    def show(self, snapshot: JobSnapshot) -> None:
        """Show another snapshot; the cursor stays on its thing."""
        self.query_one("#head", Static).update(_text(head_lines(snapshot, self.size.width)))
        why = self.query_one("#why", Static)
        why.update(_text(why_lines(snapshot)))
        why.set_class(not snapshot.diagnosis.healthy, "found")
        for each in SECTIONS:
            self._fill(each, sorted_rows(each, each.rows(snapshot), self._orders[each.name]))
        tabs = self.query_one(TabbedContent)
        for each in SECTIONS:
            order = self._orders[each.name]
            count = self._table(each).row_count
            title = f"{each.name} {count}" + (f" by {order}" if order else "")
            tabs.get_tab(each.name.lower()).label = title

    def _fill(self, section: Section, rows: list[TableRow]) -> None:
        table = self._table(section)
        chosen, scroll = self.chosen(section), table.scroll_y
        table.clear()
        for row in rows:
            cells: list[Text] = []
            for column, cell in zip(section.columns, row.cells, strict=True):
                cells += [Text(cell, justify="right" if column.right else "left", no_wrap=True), Text("")]
            table.add_row(*cells, key=row.key)
        if chosen is not None and chosen in [row.key for row in rows]:
            table.move_cursor(row=table.get_row_index(chosen), scroll=False)
            table.scroll_y = scroll

    def _table(self, section: Section) -> DataTable[Text]:
        return self.query_one(f"#{section.name.lower()}-table", DataTable)

    def chosen(self, section: Section) -> str | None:
        """The key of the row the cursor is on; None in an empty table."""
        table = self._table(section)
        if not table.row_count:
            return None
        return table.coordinate_to_cell_key(table.cursor_coordinate).row_key.value

    @property
    def section(self) -> Section:
        """The table that is shown."""
        active = self.query_one(TabbedContent).active
        return next(each for each in SECTIONS if each.name.lower() == active)

    def action_tab(self, step: int) -> None:
        """Show the table so many tabs further."""
        self.action_tab_at((SECTIONS.index(self.section) + step) % len(SECTIONS))

    def action_tab_at(self, place: int) -> None:
        """Show the table at a place."""
        self.query_one(TabbedContent).active = SECTIONS[place].name.lower()
        self._table(SECTIONS[place]).focus()

    def action_sort(self) -> None:
        """Sort the table that is shown by its next order; after the last one it has the order of the job."""
        orders = [None, *self.section.orders]
        now = self._orders[self.section.name]
        self._orders[self.section.name] = orders[(orders.index(now) + 1) % len(orders)]
        app = self.app
        if isinstance(app, TopApp) and app.snapshot is not None:
            self.show(app.snapshot)

    def on_data_table_row_selected(self, event: DataTable.RowSelected) -> None:
        """Enter, or a click: go into the thing of the row."""
        if event.row_key.value is not None:
            self.app.push_screen(DetailScreen(self.section.name, event.row_key.value))


class SnapshotScreen(Screen[None]):
    """A title and lines of text, of the newest snapshot of the job."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "app.pop_screen", "back"),
        Binding("left,backspace", "app.pop_screen", "back", show=False),
    ]

    def compose(self) -> ComposeResult:
        yield Static(id="title")
        with VerticalScroll(can_focus=True):
            yield Static(id="body")
        yield Footer()

    def on_mount(self) -> None:
        self.query_one(VerticalScroll).focus()
        app = self.app
        if isinstance(app, TopApp) and app.snapshot is not None:
            self.show(app.snapshot)

    def show(self, snapshot: JobSnapshot) -> None:
        """Show another snapshot."""
        raise NotImplementedError


class DetailScreen(SnapshotScreen):
    """One thing: a step, a partition, an output …"""

    def __init__(self, section: str, key: str) -> None:
        super().__init__()
        self._section, self._key = section, key

    def show(self, snapshot: JobSnapshot) -> None:
        found = detail(snapshot, self._section, self._key)
        title = found.title if found else f"{self._key} is there no more"
        self.query_one("#title", Static).update(Text(f"{snapshot.status.job}  {title}"))
        self.query_one("#body", Static).update(_text(list(found.lines) if found else []))


class WhyScreen(SnapshotScreen):
    """All findings of the diagnosis, and when each output has its next row."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("w", "app.pop_screen", "back", show=False)]

    def show(self, snapshot: JobSnapshot) -> None:
        found = snapshot.diagnosis
        title = "healthy" if found.healthy else "why is there no output"
        self.query_one("#title", Static).update(Text(f"{snapshot.status.job}  {title}"))
        lines = [line for each in found.findings for line in (*finding_lines(each), "")]
        lines += [each.text for each in found.next_rows]
        self.query_one("#body", Static).update(_text(lines))


class KeysScreen(ModalScreen[None]):
    """The keys, and what the words mean."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,question_mark,q,enter", "app.pop_screen", "back", show=False)
    ]

    def compose(self) -> ComposeResult:
        yield Static(Text(_KEYS), id="keys")


class TopApp(App[None]):
    """`tideglass top`: reads a job directory again and again and shows it.

    directory: of the job.
    first: what is shown at once.
    refresh_seconds: how often it is read; None: only when asked to.
    """

    TITLE = "tideglass top"
    ENABLE_COMMAND_PALETTE = False
    CSS = """
    #head { height: 3; padding: 0 1; background: $panel; }
    #why { height: auto; max-height: 3; padding: 0 1; color: $success; }
    #why.found { color: $warning; text-style: bold; }
    #title { height: 1; padding: 0 1; background: $panel; text-style: bold; }
    #body { padding: 0 1; }
    TabPane { padding: 0; }
    DataTable { height: 1fr; overflow-x: hidden; }
    TabbedContent { height: 1fr; }
    KeysScreen { align: center middle; }
    #keys { width: auto; max-width: 90%; height: auto; max-height: 90%; padding: 1 2; background: $panel; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("w", "why", "why"),
        Binding("r", "read", "read now", show=False),
        Binding("question_mark", "keys", "keys", key_display="?"),
        Binding("q", "quit", "quit"),
    ]

    def __init__(
        self, directory: JobDirectory, first: JobSnapshot, refresh_seconds: float | None = REFRESH_SECONDS
    ) -> None:
        super().__init__()
        self.directory = directory
        self.snapshot: JobSnapshot | None = first
        self._refresh_seconds = refresh_seconds
        self._tables = TablesScreen()

    def on_mount(self) -> None:
        self.push_screen(self._tables, callback=None)
        self.call_after_refresh(self._show)
        if self._refresh_seconds is not None:
            self.set_interval(self._refresh_seconds, self.action_read)

    def on_resize(self) -> None:
        """What is above the tables follows the width."""
        self.call_after_refresh(self._show)

    def take(self, snapshot: JobSnapshot) -> None:
        """Show another snapshot on every screen that shows one."""
        self.snapshot = snapshot
        self._show()

    def _show(self) -> None:
        if self.snapshot is None:
            return
        for screen in self.screen_stack:
            if isinstance(screen, TablesScreen | SnapshotScreen) and screen.is_mounted:
                screen.show(self.snapshot)

    @work(thread=True, exclusive=True, group="read")
    def action_read(self) -> None:
        """Read the job directory in a thread, since a long history takes a moment."""
        found = read_snapshot(self.directory)
        if found is not None:
            self.call_from_thread(partial(self.take, found))

    def action_why(self) -> None:
        """Show all findings."""
        if not isinstance(self.screen, WhyScreen | KeysScreen):
            self.push_screen(WhyScreen())

    def action_keys(self) -> None:
        """Show the keys."""
        if not isinstance(self.screen, KeysScreen):
            self.push_screen(KeysScreen())

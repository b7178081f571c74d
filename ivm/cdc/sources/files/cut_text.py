"""The rows of a text file, cut at their ends."""

from __future__ import annotations

from ivm.cdc.sources.files.cutter import Cutter
from ivm.cdc.sources.files.text import Text


class CutText:
    """What is the same for `Rows` of any text; a subclass sets both and may set them anew."""

    _text: Text
    _cutter: Cutter

    @property
    def at(self) -> int:
        """See `Rows`."""
        return self._cutter.at

    @property
    def open(self) -> bool:
        """See `Rows`."""
        return self._cutter.open

    def has_more(self) -> bool:
        """See `Rows`."""
        return self._cutter.has_more() or self._text.has_more()

    def passed(self) -> int:
        """See `Rows`."""
        return self._text.passed(self.at)

    def sure(self) -> int:
        """See `Rows`."""
        return self._text.sure(self.at)

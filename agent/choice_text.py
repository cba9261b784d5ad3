"""The text of one choice as its tokens arrive: whole characters, cut at stop strings, with the tokens it came from."""

from collections.abc import Sequence

from agent.stops import StopMatcher
from agent.turn import Delta, TokenLogprob
from memory.tokens import TextStream, Tokenizer


class ChoiceText:
    """Tokens go in, deltas come out. It does not know where the tokens come from or who reads the text."""

    def __init__(self, tokenizer: Tokenizer, stops: Sequence[str], *, choice_index: int) -> None:
        self.num_past_stop = 0
        """Tokens whose text lies wholly at or after a stop string."""
        self._tokenizer = tokenizer
        self._stream = TextStream(tokenizer)
        self._matcher = StopMatcher(stops)
        self._choice_index = choice_index
        self._starts: list[int] = []
        """Per token: how many characters were decoded before it."""
        self._num_decoded = 0
        self._num_released = 0
        self._text = ""
        self._tokens: list[TokenLogprob] = []

    @property
    def stopped(self) -> bool:
        """A stop string was seen."""
        return self._matcher.matched

    def push(self, tokens: Sequence[TokenLogprob]) -> None:
        for token in tokens:
            self._starts.append(self._num_decoded)
            self._add(self._stream.push((token.token_id,)))
            if token.token_id not in self._tokenizer.stop_token_ids:
                self._tokens.append(token)
        if self.stopped:
            self.num_past_stop = sum(start >= self._num_released for start in self._starts)
            del self._tokens[max(0, len(self._tokens) - self.num_past_stop) :]

    def finish(self) -> None:
        """No more tokens: what was held back is text after all."""
        self._add(self._stream.flush())
        self._release(self._matcher.flush())

    def take(self, *, final: bool = False) -> Delta | None:
        """What has become sendable since the last call. Tokens wait for text to go with, unless this is the end."""
        if not self._text and not (final and self._tokens):
            return None
        delta = Delta(choice_index=self._choice_index, text=self._text, tokens=tuple(self._tokens))
        self._text, self._tokens = "", []
        return delta

    def _add(self, text: str) -> None:
        self._num_decoded += len(text)
        self._release(self._matcher.push(text))

    def _release(self, text: str) -> None:
        self._num_released += len(text)
        self._text += text

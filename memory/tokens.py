"""Text to token ids and back, and the chat template: the one place where a conversation becomes a prompt.

What is rendered here is what the engine reads, what is recorded and what is later trained on. Reads a model directory
(tokenizer.json and the small files beside it); knows nothing of weights, and loads no model library.
"""

import codecs
import contextlib
import ctypes
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

from jinja2 import Template, TemplateError
from jinja2.ext import loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment
from tokenizers import Tokenizer as FastTokenizer

from memory.records import Message, utc_now

_SEAM = "\ufdd1"  # a Unicode noncharacter: marks where text of a message must not be read as a special token
_BYTE_TOKEN = re.compile(r"<0x([0-9A-F]{2})>")
_NAMED_TOKENS = ("bos_token", "eos_token", "unk_token", "pad_token")


class ChatTemplateError(ValueError):
    """The model's chat template refuses these messages, or there is no template; the message says what it says."""


class Tokenizer:
    """A model's vocabulary and its chat template."""

    def __init__(self, fast: FastTokenizer, template: Template, facts: Mapping[str, Mapping[str, Any]]) -> None:
        """`facts`: the parsed config, generation_config and tokenizer_config, by these names."""
        self._fast = fast
        self._template = template
        self._added = {index: token.content for index, token in fast.get_added_tokens_decoder().items()}
        special = {index: token.content for index, token in fast.get_added_tokens_decoder().items() if token.special}
        self._special_ids = frozenset(special)
        self._special_text = _any_of(special.values())
        self._named = _named_tokens(facts["tokenizer_config"])
        decoder = repr(fast.decoder)
        self._byte_of = _byte_of_character() if "ByteLevel" in decoder else None
        self.strips_first_space = "Strip" in decoder
        """SentencePiece style: the first word of a text carries a space that is not part of it."""
        self.vocab_size: int = facts["config"]["vocab_size"]
        """V, the width of the logits; at least the number of tokens that exist."""
        self.max_positions: int = facts["config"]["max_position_embeddings"]
        """Tokens of prompt and completion together."""
        self.stop_token_ids: tuple[int, ...] = self._find_stops(facts)
        """Each of them ends a completion."""

    @classmethod
    def load(cls, directory: Path) -> "Tokenizer":
        """Raises OSError when a file is missing, ChatTemplateError when the model is not made for chat."""
        names = ("config", "generation_config", "tokenizer_config")
        facts = {name: _read_json(directory / f"{name}.json", needed=name == "config") for name in names}
        path = directory / "tokenizer.json"
        if not path.is_file():
            raise FileNotFoundError(f"no tokenizer.json in {directory}")
        template = _compile(_template_source(directory, facts["tokenizer_config"]))
        fast = FastTokenizer.from_file(str(path))
        _return_freed_memory()
        return cls(fast, template, facts)

    def render_chat(self, messages: Sequence[Message], *, add_generation_prompt: bool = True) -> tuple[int, ...]:
        """The prompt's ids. A special token spelt out in a message stays text: nobody can end their own turn early or
        speak as the system."""
        text = self._render(self._defuse(messages), add_generation_prompt=add_generation_prompt)
        return tuple(token_id for piece in text.split(_SEAM) for token_id in self.encode(piece, allow_special=True))

    def render_chat_text(self, messages: Sequence[Message], *, add_generation_prompt: bool = True) -> str:
        """The prompt as text, for people: it cannot tell a special token from its spelling."""
        return self._render(messages, add_generation_prompt=add_generation_prompt)

    def encode(self, text: str, *, allow_special: bool = False) -> tuple[int, ...]:
        """Ids of plain text, nothing added. Special tokens are recognised only when allowed."""
        if not allow_special and self._special_text.search(text):
            pieces = self._special_text.sub(_part, text).split(_SEAM)
            return tuple(token_id for piece in pieces for token_id in self.encode(piece, allow_special=True))
        return tuple(self._fast.encode(text, add_special_tokens=False).ids)

    def decode(self, token_ids: Sequence[int]) -> str:
        """The text of sampled ids, special tokens left out; bytes that are no UTF-8 become U+FFFD."""
        stream = TextStream(self)
        return stream.push(token_ids) + stream.flush()

    def token_bytes(self, token_id: int) -> bytes:
        """The bytes one token stands for, a special token's spelling included; nothing for an id without a token."""
        if token_id in self._added:
            return self._added[token_id].encode()
        token = self._fast.id_to_token(token_id)
        if token is None:
            return b""
        if self._byte_of is not None:
            return bytes(self._byte_of[character] for character in token)
        if byte := _BYTE_TOKEN.fullmatch(token):
            return bytes.fromhex(byte[1])
        return token.replace("▁", " ").encode()

    def token_text(self, token_id: int) -> str:
        """One token for display; part of a character shows as U+FFFD."""
        return self.token_bytes(token_id).decode(errors="replace")

    def is_special(self, token_id: int) -> bool:
        """Whether the token marks structure and is never part of a text."""
        return token_id in self._special_ids

    def _render(self, messages: Sequence[Message], *, add_generation_prompt: bool) -> str:
        try:
            return self._template.render(
                messages=[{"role": message.role, "content": message.content} for message in messages],
                add_generation_prompt=add_generation_prompt,
                tools=None,
                documents=None,
                **self._named,
            )
        except TemplateError as error:
            raise ChatTemplateError(f"the model's chat template refuses the messages: {error.message}") from error

    def _defuse(self, messages: Sequence[Message]) -> list[Message]:
        """Put a seam into every special token that is spelt out in a message."""
        return [
            Message(
                role=message.role,
                content=self._special_text.sub(_part, message.content.replace(_SEAM, "\N{REPLACEMENT CHARACTER}")),
            )
            for message in messages
        ]

    def _find_stops(self, facts: Mapping[str, Mapping[str, Any]]) -> tuple[int, ...]:
        found = {self._fast.token_to_id(self._named["eos_token"])} if self._named.get("eos_token") else set()
        for name in ("config", "generation_config"):
            stops = facts[name].get("eos_token_id")
            found.update(stops if isinstance(stops, list) else [stops])
        return tuple(sorted(stop for stop in found if stop is not None))


class TextStream:
    """Decodes a completion as it grows: each piece is whole characters, and the pieces joined are `decode` of all."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self._at_start = tokenizer.strips_first_space

    def push(self, token_ids: Iterable[int]) -> str:
        """The text that these ids complete; what may still become another character waits."""
        tokenizer = self._tokenizer
        data = b"".join(tokenizer.token_bytes(i) for i in token_ids if not tokenizer.is_special(i))
        return self._trim(self._decoder.decode(data))

    def flush(self) -> str:
        """What still waits: an unfinished character is U+FFFD."""
        return self._trim(self._decoder.decode(b"", final=True))

    def _trim(self, text: str) -> str:
        if self._at_start and text:
            self._at_start = False
            return text.removeprefix(" ")
        return text


def _part(special: re.Match[str]) -> str:
    return special[0][0] + _SEAM + special[0][1:]


def _any_of(texts: Iterable[str]) -> re.Pattern[str]:
    """Matches any of `texts` of two characters or more, the longest first; nothing when there is none."""
    longest_first = sorted((text for text in texts if len(text) > 1), key=len, reverse=True)
    return re.compile("|".join(map(re.escape, longest_first)) or r"(?!)")


def _named_tokens(tokenizer_config: Mapping[str, Any]) -> dict[str, str]:
    """bos_token and its like, which templates may use; older files wrap each in an object."""
    tokens = {name: tokenizer_config.get(name) for name in _NAMED_TOKENS}
    return {name: token["content"] if isinstance(token, dict) else token for name, token in tokens.items() if token}


def _template_source(directory: Path, tokenizer_config: Mapping[str, Any]) -> str:
    """The file of its own if there is one, else the entry in tokenizer_config, which may be a list of named ones."""
    path = directory / "chat_template.jinja"
    if path.is_file():
        return path.read_text(encoding="utf-8")
    source = tokenizer_config.get("chat_template")
    if isinstance(source, list):
        source = next((entry["template"] for entry in source if entry["name"] == "default"), None)
    if not isinstance(source, str):
        raise ChatTemplateError(f"{directory} has no chat template: choose a model that was tuned for chat")
    return source


def _compile(source: str) -> Template:
    """Templates come with model files and are not trusted: sandboxed, no writes to what they are given."""
    environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[loopcontrols])
    environment.filters["tojson"] = lambda value, indent=None: json.dumps(value, ensure_ascii=False, indent=indent)
    environment.globals["raise_exception"] = _refuse
    environment.globals["strftime_now"] = lambda form: utc_now().strftime(form)
    try:
        return environment.from_string(source)
    except TemplateError as error:
        raise ChatTemplateError(f"the model's chat template cannot be read: {error.message}") from error


def _refuse(message: str) -> NoReturn:
    raise TemplateError(message)


def _read_json(path: Path, *, needed: bool) -> dict[str, Any]:
    if not needed and not path.is_file():
        return {}
    content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return content


def _return_freed_memory() -> None:
    """Parsing a vocabulary leaves 15 MB of free memory in the allocator, which the daemon would carry for ever."""
    with contextlib.suppress(OSError, AttributeError):  # another C library: nothing to do
        ctypes.CDLL("libc.so.6").malloc_trim(0)


def _byte_of_character() -> dict[str, int]:
    """Byte-level BPE spells each byte as one printable character: itself if printable, else the next from U+0100 on
    (the table of GPT-2)."""
    printable = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)]
    others = [byte for byte in range(256) if byte not in printable]
    return {chr(byte): byte for byte in printable} | {chr(256 + n): byte for n, byte in enumerate(others)}

"""Stop strings on text that arrives in pieces, and the text of a choice made from tokens."""

from hypothesis import given
from hypothesis import strategies as st

from agent.choice_text import ChoiceText
from agent.stops import StopMatcher
from agent.turn import TokenLogprob
from memory.tokens import Tokenizer

ALPHABET = st.text(alphabet="abc", max_size=12)
STOPS = st.lists(st.text(alphabet="abc", min_size=1, max_size=4), max_size=4)


@given(pieces=st.lists(ALPHABET, max_size=8), stops=STOPS)
def test_pieces_give_what_the_whole_text_gives(pieces: list[str], stops: list[str]) -> None:
    """However text is cut into pieces, what is sent is the text before the stop string that ends first."""
    matcher = StopMatcher(stops)
    sent = "".join([*map(matcher.push, pieces), matcher.flush()])
    text = "".join(pieces)
    ends = [(text.find(stop) + len(stop), text.find(stop)) for stop in stops if stop in text]
    if not ends:
        assert (sent, matcher.matched) == (text, False)
    else:
        assert matcher.matched
        assert not any(stop in sent for stop in stops)
        assert text.startswith(sent)


def test_only_what_could_begin_a_stop_string_is_held_back() -> None:
    """Text that cannot become a stop string goes out at once."""
    matcher = StopMatcher(["###"])
    assert matcher.push("Hello #") == "Hello "
    assert matcher.push("1") == "#1"
    assert matcher.push("##") == ""
    assert matcher.flush() == "##"


@given(text=st.text(max_size=40))
def test_tokens_give_back_their_text(tokenizer: Tokenizer, text: str) -> None:
    """The deltas of a choice add up to the decoded text, and every token is reported once."""
    tokens = [TokenLogprob(token_id=token_id, logprob=-1.0) for token_id in tokenizer.encode(text)]
    choice = ChoiceText(tokenizer, (), choice_index=0)
    deltas = []
    for token in tokens:
        choice.push([token])
        deltas.append(choice.take())
    choice.finish()
    deltas.append(choice.take(final=True))
    assert "".join(delta.text for delta in deltas if delta) == tokenizer.decode([token.token_id for token in tokens])
    assert [token for delta in deltas if delta for token in delta.tokens] == tokens

"""What an update did with each interaction that it touched: the rows behind `why`."""

from collections.abc import Iterable

from memory.records import Update, Use
from memory.states import UpdateStatus


class Roles:
    """One role per interaction, with its reason; the last word counts."""

    def __init__(self) -> None:
        self._roles: dict[str, tuple[str, str, float]] = {}

    def note(self, role: str, interaction_ids: Iterable[str], reason: str, *, weight: float = 0.0) -> None:
        """Say what became of these: trained, replayed, selection, gate, audit or left_out."""
        for interaction_id in interaction_ids:
            self._roles[interaction_id] = (role, reason, weight)

    def note_others(self, role: str, interaction_ids: Iterable[str], reason: str) -> None:
        """The same for those of which nothing was said yet."""
        self.note(role, (one for one in interaction_ids if one not in self._roles), reason)

    def to_uses(self, end: Update) -> list[Use]:
        """The rows, which say as well when the update came to nothing."""
        published = end.status is UpdateStatus.PUBLISHED
        unused = f"the update was {end.status.value}: {end.reason}"
        return [
            Use(
                update_id=end.id,
                interaction_id=interaction_id,
                role=role,
                reason=reason if published or role == "left_out" else f"{reason}; {unused}",
                weight=weight,
            )
            for interaction_id, (role, reason, weight) in self._roles.items()
        ]

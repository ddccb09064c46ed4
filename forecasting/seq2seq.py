"""A sequence-to-sequence network with attention, of the kind that Madu uses; for comparison.

Madu's own network is not public: a GRU reads the past, another writes the future step by
step, each step attending over what was read; dropout in the attention stands in for its
"stochastic attention".
"""

from __future__ import annotations

from typing import Any

from forecasting.forecast import LEVELS
from forecasting.heavy import heavy


def seq2seq_module(positions: int, options: dict[str, Any]) -> Any:
    """A torch module that answers (rows, positions · LEVELS) from `insample_y`."""
    torch = heavy("torch")
    hidden_size = int(options.get("hidden_size", 48))
    coarse = 6

    class Seq2Seq(torch.nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.encoder = torch.nn.GRU(coarse, hidden_size, batch_first=True)
            self.decoder = torch.nn.GRUCell(hidden_size + 1, hidden_size)
            self.attention = torch.nn.MultiheadAttention(hidden_size, 4, dropout=0.1, batch_first=True)
            self.head = torch.nn.Linear(2 * hidden_size, len(LEVELS))

        def forward(self, window: dict[str, Any]) -> Any:
            past = window["insample_y"][:, :, 0]
            # Six bins a step: attention over 48 half hours learns, over 288 bins it does not.
            read, state = self.encoder(past.reshape(len(past), -1, coarse))
            state, last = state[0], past[:, -1:]
            answers = []
            for _ in range(positions):
                context, _ = self.attention(state[:, None], read, read, need_weights=False)
                state = self.decoder(torch.cat([context[:, 0], last], dim=1), state)
                answer = past[:, -1:] + self.head(torch.cat([state, context[:, 0]], dim=1))
                last = answer[:, 1:2]
                answers.append(answer)
            return torch.stack(answers, dim=1)

    return Seq2Seq()

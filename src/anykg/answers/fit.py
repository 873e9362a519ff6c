"""Make an answerer for one graph: fit several models to it and learn how to mix them.

1. Hide a tenth of the facts, all at once.
2. Fit the components to the rest.
3. Ask all of them for hidden facts and learn the weights of the mix (`answers.mixing`).
4. Fit again to all facts what is bound to facts: ComplEx continues from its vectors, rules are mined anew. The adapted
   foundation model stays as it is: it reads the graph's facts when it answers.

The time is shared out in advance; what a stage does not need goes to the stages after it, and a small graph is done
early. Ctrl-C ends the stage at hand; what is finished by then is mixed.
"""

from __future__ import annotations

SHARE = 0.1
"""Of the facts, hidden."""
FEWEST = 10
"""Hidden facts without which there is nothing to learn weights from."""
MOST_QUESTIONS, FEWEST_QUESTIONS = 2400, 120
"""Questions about hidden facts: as many as there is time for, within these bounds."""
MOST_STEPS = 3000
"""Of adapting the foundation model."""
STAGES = {"rules": 0.12, "complex": 0.24, "adapted": 0.34, "ask": 0.14, "mix": 0.04, "again": 0.12}
"""How the time is shared out."""
PARTS = "parts"
"""Folder of finished components, until all is done."""

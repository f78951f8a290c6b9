"""A stage that trains one model with one optimizer."""

from __future__ import annotations

from llmstack.engine.protocol import StageState
from llmstack.models.causal_lm import CausalLM
from llmstack.models.scalar_model import ScalarModel
from llmstack.models.weights import export_arrays, import_arrays
from llmstack.stages.base import Stage
from llmstack.stages.learner import Learner


class SingleModelStage(Stage):
    """State, resume and result of a stage with one model.

    Attributes:
        model: set by ``build_models``.
        learner: set by ``build_loss``.
    """

    model: CausalLM | ScalarModel
    learner: Learner

    def state(self) -> StageState:
        """What is trained of the model, optimizer and data position."""
        return StageState(
            params=export_arrays(self.model, trained_only=True),
            optimizer=self.learner.state(),
            trainer={"loader": self.loader.state()},
        )

    def restore(self, state: StageState) -> None:
        """Put a ``state`` back.

        Args:
            state: what ``state()`` gave.
        """
        import_arrays(self.model, state.params, source="checkpoint", trained_only=True)
        self.learner.restore(state.optimizer)
        self.loader.restore(state.trainer["loader"])

    @property
    def final_model(self) -> CausalLM | ScalarModel:
        """The trained model."""
        return self.model

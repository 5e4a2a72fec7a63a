"""One network a task: what a recurrence becomes with an input and an output around it.

Each is called on padded batches with the lengths of the rows, takes the name of any architecture
of ``companion.ARCHITECTURES``, and comes with the objective that ``companion.train.Trainer``
minimizes for it.
"""

from companion.models.attention_decoder import AttentionDecoder
from companion.models.backbone import Backbone, Block
from companion.models.baselines import LinearForecaster, SeasonalNaive
from companion.models.classifier import TextClassifier, classification_objective
from companion.models.ctc import collapse, ctc_forward, ctc_loss
from companion.models.decoder import Decoder
from companion.models.decoding import Hypothesis, ctc_beam_search, ctc_greedy
from companion.models.encoder import Bridge, Encoder
from companion.models.forecasting import Forecaster, forecasting_objective, pinball_loss
from companion.models.generation import Translation, beam_search, generate
from companion.models.language_model import LanguageModel
from companion.models.likelihood import (
    activation_penalty,
    bits,
    language_model_objective,
)
from companion.models.nbeats import NBEATS
from companion.models.parts import LockedDropout
from companion.models.pooling import AttentionPooling, pool_last, pool_max, pool_mean
from companion.models.sampling import next_token_probabilities
from companion.models.seq2seq import Seq2Seq, scheduled_objective, seq2seq_objective
from companion.models.speech import SpeechRecognizer, speech_objective
from companion.models.tagger import Tagger, tagging_objective
from companion.models.tcn import TCN
from companion.models.transformer import TransformerForecaster, sinusoids

__all__ = [
    "NBEATS",
    "TCN",
    "AttentionDecoder",
    "AttentionPooling",
    "Backbone",
    "Block",
    "Bridge",
    "Decoder",
    "Encoder",
    "Forecaster",
    "Hypothesis",
    "LanguageModel",
    "LinearForecaster",
    "LockedDropout",
    "SeasonalNaive",
    "Seq2Seq",
    "SpeechRecognizer",
    "Tagger",
    "TextClassifier",
    "TransformerForecaster",
    "Translation",
    "activation_penalty",
    "beam_search",
    "bits",
    "classification_objective",
    "collapse",
    "ctc_beam_search",
    "ctc_forward",
    "ctc_greedy",
    "ctc_loss",
    "forecasting_objective",
    "generate",
    "language_model_objective",
    "next_token_probabilities",
    "pinball_loss",
    "pool_last",
    "pool_max",
    "pool_mean",
    "scheduled_objective",
    "seq2seq_objective",
    "sinusoids",
    "speech_objective",
    "tagging_objective",
]

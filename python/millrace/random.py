"""Mirrors tf.random, as far as it is built."""

from types import SimpleNamespace as _SimpleNamespace

from ._base.hints import missing_name as _missing_name
from ._ops.absent import (
    all_candidate_sampler as all_candidate_sampler,
    fixed_unigram_candidate_sampler as fixed_unigram_candidate_sampler,
    learned_unigram_candidate_sampler as learned_unigram_candidate_sampler,
    log_uniform_candidate_sampler as log_uniform_candidate_sampler,
    uniform_candidate_sampler as uniform_candidate_sampler,
    stateless_parameterized_truncated_normal as stateless_parameterized_truncated_normal,
    set_global_generator as set_global_generator,
    index_shuffle as _index_shuffle,
    create_rng_state as create_rng_state,
    gamma as gamma,
    get_global_generator as get_global_generator,
    poisson as poisson,
    random_generator as Generator,
    stateless_binomial as stateless_binomial,
    stateless_gamma as stateless_gamma,
    stateless_poisson as stateless_poisson,
)
from ._ops.draws import (
    categorical as categorical,
    fold_in as fold_in,
    normal as normal,
    set_seed as set_seed,
    shuffle as shuffle,
    split as split,
    stateless_categorical as stateless_categorical,
    stateless_normal as stateless_normal,
    stateless_shuffle as _stateless_shuffle,
    stateless_truncated_normal as stateless_truncated_normal,
    stateless_uniform as stateless_uniform,
    truncated_normal as truncated_normal,
    uniform as uniform,
)

experimental = _SimpleNamespace(
    Generator=Generator,
    create_rng_state=create_rng_state,
    get_global_generator=get_global_generator,
    index_shuffle=_index_shuffle,
    set_global_generator=set_global_generator,
    stateless_shuffle=_stateless_shuffle,
    stateless_split=split,
    stateless_fold_in=fold_in,
)

__getattr__ = _missing_name(__name__)

//! Tasks that wait, every interleaving of which a model checker tries: run them with `scripts/loom`.

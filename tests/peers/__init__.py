"""Ours beside the same layer of other libraries, with the same weights: `make peers`.

Where a paper and its code differ, and what we have:

| layer     | paper                        | code                             | ours            |
| --------- | ---------------------------- | -------------------------------- | --------------- |
| Mamba     | B held, (e^ΔA − 1) A⁻¹ B     | Euler, ΔB                        | both, by name   |
| RetNet    | group norm                   | root mean square, no mean        | both, by name   |
| RetNet    | one way to divide the scores | another for each form            | the paper's     |
| RWKV-7    | e^(−1/2) in the decay        | 0.606531                         | e^(−1/2)        |
| mLSTM     | k scaled before its bias     | after it                         | after it        |
| mLSTM     | gates as they are            | soft caps of the gates           | as they are     |
| mLSTM     | over max(·, 1)               | and 1e-6 more                    | as the code     |
| DeltaNet  | q over its length            | and over √d                      | as the code     |
| Griffin   | GeLU                         | its approximation by a tanh      | GeLU            |
| RG-LRU    | √(1 − a²) at every step      | left out at position 0           | at every step   |
| attention | a head is rotated            | half of it; a window of one more | all; the window |
| minGRU    | z writes                     | z writes                         | z keeps         |

What has no peer here: Mamba with B held; RetNet with group norm; mambapy's Mamba-2 and the layers
of flash-linear-attention (CUDA, Triton: its naive oracles stand in); DeltaNet without a decay as a
whole layer (its rule is compared); the xLSTM's blocks with window and norm, and RecurrentGemma as
a whole, whose norms and feed-forward parts are not those of our Backbone; S4, S4D and LRU. The
layers of torch.nn are compared in `make test`.
"""

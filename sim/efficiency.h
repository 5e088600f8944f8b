/*
 * efficiency.h - the bandwidth equations of ZeRO-Infinity (arXiv 2104.07857, Sec. 4), as printed:
 * what share of its peak a GPU reaches when one kind of data moves at a given bandwidth and nothing
 * overlaps.
 *
 * Symbols: tokens = bsz·seq of one GPU, hd hidden size, ci blocks between checkpoints, bw bytes/s,
 * peak FLOP/s; ait is arithmetic intensity by traffic, FLOP/byte.
 * Valid for 12·nl·hd² models trained with recompute and Adam; bw of parameters and gradients is
 * that of one GPU (after the all-gather), of optimizer state that of all GPUs together, of
 * activation checkpoints that of one GPU.
 */
#ifndef MW_SIM_EFFICIENCY_H
#define MW_SIM_EFFICIENCY_H

/* Eq. 6: ait·bw / (ait·bw + peak); 1 at infinite bandwidth. */
double mw_efficiency(double ait, double bytes_per_s, double peak_flops);

/* Eq. 7, 8: 2·4·bsz·seq·params: forward 1, backward 2, recompute 1. */
double mw_efficiency_flops(double tokens, double params);

/* Eq. 9: bsz·seq, from three loads of parameters and one store of gradients: 2·4·params bytes. */
double mw_efficiency_ait_params(double tokens);

/* Eq. 10: bsz·seq / 4, from one read and one write of 16 bytes a parameter: 2·16·params bytes. */
double mw_efficiency_ait_state(double tokens);

/* Eq. 11: 24·hd·ci, from one store and one load: 4·nl/ci·hd·seq·bsz bytes. */
double mw_efficiency_ait_checkpoints(double hidden, double ci);

#endif

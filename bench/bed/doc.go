// Package bed is the test bed of the macro benchmarks: it starts servers and the load generator under
// one hygiene, measures them in interleaved rounds, and appends the figures to bench/results.
//
// Rules it keeps:
//
//   - Every process of a run is pinned and raised in the same way (nice -20 and autogroup weight -20),
//     runs in a session of its own, dies with its parent, and is ended by its process id.
//   - All servers stay up; only one is measured at a time, in rounds whose order alternates.
//   - A ratio is the median of the ratios within each round, never a ratio of medians.
//   - Results are appended, never rewritten.
//
// A benchmark's command embeds Runner, which has the flags that all of them take, and shows only what is its own.
//
// It listens and connects on loopback only.
package bed

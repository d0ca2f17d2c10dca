// Package turns compares servers that run at the same time and are measured in short turns, so that whatever
// else the machine does is spread over all of them. A ratio is the median of the ratios of the rounds.
package turns

import (
	"slices"

	"github.com/wskit/wskit/bench/page"
	"github.com/wskit/wskit/bench/stats"
)

// Costs are what the servers have cost, by server, then by round.
type Costs [][]float64

// Take measures each of n servers once a round, and begins with another one each time. One more round, which is
// not counted, warms up.
func Take(n, rounds int, measure func(server int) (float64, error)) (Costs, error) {
	costs := make(Costs, n)
	for round := range rounds + 1 {
		for turn := range n {
			server := (round + turn) % n
			cost, err := measure(server)
			if err != nil {
				return nil, err
			}
			if round > 0 {
				costs[server] = append(costs[server], cost)
			}
		}
	}
	return costs, nil
}

// Median is the median cost of a server.
func (c Costs) Median(server int) float64 {
	return stats.Quantile(slices.Sorted(slices.Values(c[server])), 0.5)
}

// Ratio compares two servers round by round: the median of the ratios, and the quartiles beside it.
func (c Costs) Ratio(server, other int) (median, lower, upper float64) {
	ratios := make([]float64, len(c[server]))
	for round := range ratios {
		ratios[round] = c[server][round] / c[other][round]
	}
	slices.Sort(ratios)
	return stats.Quantile(ratios, 0.5), stats.Quantile(ratios, 0.25), stats.Quantile(ratios, 0.75)
}

// Compare is a line of a table that compares servers, wskit first, by the medians of their rounds.
func Compare[T any](servers [][]T, line page.Compared, of func(T) float64) []string {
	for _, rounds := range servers {
		line.Values = append(line.Values, stats.Median(rounds, of))
	}
	return line.Cells()
}

// Package turns compares servers that run at the same time and are measured in short turns, so that whatever
// else the machine does is spread over all of them. A ratio is the median of the ratios of the rounds.
package turns

import "slices"

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
func (c Costs) Median(server int) float64 { return quartile(c[server], 2) }

// Ratio compares two servers round by round: the median of the ratios, and the quartiles beside it.
func (c Costs) Ratio(server, other int) (median, lower, upper float64) {
	ratios := make([]float64, len(c[server]))
	for round := range ratios {
		ratios[round] = c[server][round] / c[other][round]
	}
	return quartile(ratios, 2), quartile(ratios, 1), quartile(ratios, 3)
}

// quartile returns the n-th quartile.
func quartile(v []float64, n int) float64 {
	v = slices.Sorted(slices.Values(v))
	return v[(len(v)-1)*n/4]
}

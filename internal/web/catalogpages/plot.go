// SPDX-License-Identifier: Apache-2.0

package catalogpages

import "slices"

// Size of a plot, in its own units.
const (
	plotHeight = 120
	barWidth   = 8
	barGap     = 2
)

// plot is a bar chart, for SVG with presentation attributes only. The page has the same
// numbers as a table.
type plot struct {
	Width, Height int
	Max           int64 // value of the highest bar
	Bars          []bar
}

type bar struct{ X, Y, Width, Height int }

// newPlot draws a bar for each number. A number above zero always gets a visible bar.
func newPlot(values []int64) plot {
	p := plot{Width: len(values) * (barWidth + barGap), Height: plotHeight}
	if len(values) == 0 {
		return p
	}
	p.Max = slices.Max(values)
	for i, v := range values {
		if v <= 0 {
			continue
		}
		h := max(2, int(float64(v)/float64(p.Max)*plotHeight))
		p.Bars = append(p.Bars, bar{X: i * (barWidth + barGap), Y: plotHeight - h, Width: barWidth, Height: h})
	}
	return p
}

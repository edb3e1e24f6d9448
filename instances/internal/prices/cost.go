// SPDX-License-Identifier: Apache-2.0

package prices

import (
	"fmt"
	"strings"
)

// Cost is what a plan changes of the hourly price, as stored in a ledger and returned by
// the API. Resources without a price are in neither sum.
type Cost struct {
	Before   int64  `json:"before"` // millionths
	After    int64  `json:"after"`  // millionths
	Currency string `json:"currency"`
	Priced   int    `json:"priced"`             // resources before, after or both
	Unpriced int    `json:"unpriced,omitempty"` // the table has no price, or a value is not known yet
}

// String describes the cost for users; "" if c is nil or has no resources.
func (c *Cost) String() string {
	if c == nil {
		return ""
	}
	var parts []string
	if c.Priced > 0 {
		parts = append(parts, c.change())
	}
	switch {
	case c.Unpriced == 1:
		parts = append(parts, "1 resource has no price")
	case c.Unpriced > 1:
		parts = append(parts, fmt.Sprintf("%d resources have no price", c.Unpriced))
	}
	return strings.Join(parts, "; ")
}

// change describes the difference in price.
func (c *Cost) change() string {
	by := c.After - c.Before
	word := "more"
	switch {
	case by == 0:
		return "about the same, " + amount(c.After) + " " + c.Currency + " an hour"
	case by < 0:
		by = -by
		word = "less"
	}
	return fmt.Sprintf("about %s %s an hour %s (%s → %s)", amount(by), c.Currency, word, amount(c.Before), amount(c.After))
}

// amount formats millionths exactly, with at least two decimals.
func amount(millionths int64) string {
	parts := fmt.Sprintf("%06d", millionths%whole)
	return fmt.Sprintf("%d.%s%s", millionths/whole, parts[:2], strings.TrimRight(parts[2:], "0"))
}

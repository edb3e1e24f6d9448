// SPDX-License-Identifier: Apache-2.0

package prices

import (
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
)

// MaxTable bounds the file of a table, in bytes.
const MaxTable = 1 << 20

const (
	maxRows   = 10_000
	whole     = 1_000_000         // millionths
	maxHourly = 1_000_000 * whole // of one resource, so that the sum for a million of them still fits
	maxDigits = 6                 // of decimals
)

// Table holds the prices of resources.
type Table struct {
	Currency string `json:"currency"` // a code such as EUR
	Rows     []Row  `json:"rows"`
}

// Row is the price of the resources of a type.
type Row struct {
	Type      string `json:"type"`
	Attribute string `json:"attribute,omitempty"` // top-level; "": for resources that match no other row
	Value     string `json:"value,omitempty"`     // of the attribute, as text
	Hourly    int64  `json:"hourly"`              // millionths
}

func tableHeader() []string { return []string{"type", "attribute", "value", "hourly"} }

// Parse parses a table: CSV with a header. Errors name the line, and what to do.
func Parse(src []byte, currency string) (*Table, error) {
	if len(currency) != 3 || strings.Trim(currency, "ABCDEFGHIJKLMNOPQRSTUVWXYZ") != "" {
		return nil, fmt.Errorf("the currency %q is not a code such as EUR", currency)
	}
	r := csv.NewReader(bytes.NewReader(src))
	r.FieldsPerRecord = -1
	r.ReuseRecord = true
	first, err := r.Read()
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, wrongCSV(err)
	}
	if !slices.Equal(first, tableHeader()) {
		return nil, fmt.Errorf("line 1 is not the header\nhint: write %s there", strings.Join(tableHeader(), ","))
	}
	t := &Table{Currency: currency}
	return t, t.readRows(r)
}

// readRows adds the rows after the header.
func (t *Table) readRows(r *csv.Reader) error {
	lines := map[Row]int{} // by row without its price
	for {
		fields, err := r.Read()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return wrongCSV(err)
		}
		line, _ := r.FieldPos(0)
		row, err := parseRow(fields)
		if err != nil {
			return fmt.Errorf("line %d: %w", line, err)
		}
		key := Row{Type: row.Type, Attribute: row.Attribute, Value: row.Value}
		if before := lines[key]; before > 0 {
			return fmt.Errorf("line %d duplicates line %d\nhint: remove one of them", line, before)
		}
		if lines[key] = line; len(t.Rows) == maxRows {
			return fmt.Errorf("line %d: more than %d prices\nhint: remove unused types", line, maxRows)
		}
		t.Rows = append(t.Rows, row)
	}
}

// wrongCSV adds the line number to a format error.
func wrongCSV(err error) error {
	if e, ok := errors.AsType[*csv.ParseError](err); ok {
		return fmt.Errorf("line %d is not CSV: %w\nhint: quote values with a comma or quotation mark, and double quotation marks within", e.Line, e.Err)
	}
	return err
}

func parseRow(fields []string) (row Row, err error) {
	if len(fields) != len(tableHeader()) {
		return row, fmt.Errorf("%d columns\nhint: each line has %s", len(fields), strings.Join(tableHeader(), ","))
	}
	for i := range fields {
		fields[i] = strings.Clone(strings.TrimSpace(fields[i]))
	}
	row = Row{Type: fields[0], Attribute: fields[1], Value: fields[2]}
	switch {
	case row.Type == "":
		return row, errors.New("no type\nhint: set a resource type, such as aws_instance")
	case row.Attribute == "" && row.Value != "":
		return row, fmt.Errorf("value %q without an attribute\nhint: set the attribute, or remove the value", row.Value)
	}
	row.Hourly, err = parseAmount(fields[3])
	return row, err
}

// parseAmount parses an amount of money, in millionths.
func parseAmount(s string) (int64, error) {
	refused := fmt.Errorf("hourly %q is not a price\nhint: write digits with at most six after a point, as 0.0416, up to %d", s, maxHourly/whole)
	units, parts, point := strings.Cut(s, ".")
	incomplete := units == "" || point && parts == ""
	tooLong := len(parts) > maxDigits || len(units) > 7
	if incomplete || tooLong || strings.Trim(units+parts, "0123456789") != "" {
		return 0, refused
	}
	n, err := strconv.ParseInt(units+parts+strings.Repeat("0", maxDigits-len(parts)), 10, 64)
	if err != nil || n > maxHourly {
		return 0, refused
	}
	return n, nil
}

// Cost is what a plan changes of the hourly price. Resources without a price are in neither sum.
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
		parts = append(parts, c.describeChange())
	}
	switch {
	case c.Unpriced == 1:
		parts = append(parts, "1 resource has no price")
	case c.Unpriced > 1:
		parts = append(parts, fmt.Sprintf("%d resources have no price", c.Unpriced))
	}
	return strings.Join(parts, "; ")
}

func (c *Cost) describeChange() string {
	by := c.After - c.Before
	word := "more"
	switch {
	case by == 0:
		return "about the same, " + formatAmount(c.After) + " " + c.Currency + " an hour"
	case by < 0:
		by = -by
		word = "less"
	}
	return fmt.Sprintf("about %s %s an hour %s (%s → %s)", formatAmount(by), c.Currency, word, formatAmount(c.Before), formatAmount(c.After))
}

// formatAmount formats millionths exactly, with at least two decimals.
func formatAmount(millionths int64) string {
	parts := fmt.Sprintf("%06d", millionths%whole)
	return fmt.Sprintf("%d.%s%s", millionths/whole, parts[:2], strings.TrimRight(parts[2:], "0"))
}

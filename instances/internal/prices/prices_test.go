// SPDX-License-Identifier: Apache-2.0

package prices_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/seed-141914ff/okara/instances/internal/prices"
	"github.com/seed-141914ff/okara/internal/must"
)

const head = "type,attribute,value,hourly\n"

func TestParse(t *testing.T) {
	got := must.Get(prices.Parse([]byte(head+"disk,,,0.000001\r\n\nvm, size ,large,1000000\nvm,label,\"a,\"\"b\"\"\",2.5\nvm,label,,0\n"), "EUR"))(t)
	want := &prices.Table{Currency: "EUR", Rows: []prices.Row{
		{Type: "disk", Hourly: 1}, {Type: "vm", Attribute: "size", Value: "large", Hourly: 1_000_000_000_000},
		{Type: "vm", Attribute: "label", Value: `a,"b"`, Hourly: 2_500_000}, {Type: "vm", Attribute: "label"},
	}}
	must.Match(t, "table", got, want)
}

// TestParseRefused names each mistake with its line, and what to do.
func TestParseRefused(t *testing.T) {
	var many strings.Builder
	many.WriteString(head)
	for i := range 10_001 {
		fmt.Fprintf(&many, "vm,size,%d,1\n", i)
	}
	for _, tt := range []struct{ name, text, currency, want string }{
		{"currency", head, "euro", "is not a code such as EUR"},
		{"empty", "", "EUR", "line 1 is not the header"},
		{"no header", "vm,,,1\n", "EUR", "line 1 is not the header"},
		{"columns", head + "vm,,1\n", "EUR", "line 2: 3 columns"},
		{"no type", head + "disk,,,1\n ,,,1\n", "EUR", "line 3: no type"},
		{"value alone", head + "vm,,large,1\n", "EUR", `line 2: value "large" without an attribute`},
		{"not CSV", head + "vm,,,1\nvm,a,b\"c,1\n", "EUR", "line 3 is not CSV"},
		{"twice", head + "vm,,,1\ndisk,,,1\nvm,,,2\n", "EUR", "line 4 duplicates line 2"},
		{"too many", many.String(), "EUR", "line 10002: more than 10000 prices"},
		{"no price", head + "vm,,,\n", "EUR", `line 2: hourly "" is not a price`},
		{"negative", head + "vm,,,-1\n", "EUR", "is not a price"},
		{"exponent", head + "vm,,,1e3\n", "EUR", "is not a price"},
		{"point alone", head + "vm,,,1.\n", "EUR", "is not a price"},
		{"too fine", head + "vm,,,0.0000001\n", "EUR", "is not a price"},
		{"too large", head + "vm,,,1000000.000001\n", "EUR", "is not a price"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := prices.Parse([]byte(tt.text), tt.currency)
			if err == nil || !strings.Contains(err.Error(), tt.want) || tt.name != "currency" && !strings.Contains(err.Error(), "hint: ") {
				t.Errorf("got %v, want %s", err, tt.want)
			}
		})
	}
}

func table(t testing.TB) *prices.Table {
	t.Helper()
	return must.Get(prices.Parse([]byte(head+"vm,,,0.1\nvm,size,large,0.4\nvm,zone,x,9\nvm,size,small,0.05\nvm,spot,true,0.01\nvm,cores,2,0.2\ndisk,type,ssd,0.000001\n"), "EUR"))(t)
}

func change(kind, rest string) string {
	return `{"address":"a","mode":"managed","type":"` + kind + `","change":{` + rest + `}}`
}

// TestOf adds up the cost of each kind of change to a resource.
func TestOf(t *testing.T) {
	for _, tt := range []struct {
		name, change  string
		before, after int64
		priced, none  int
	}{
		{"nothing", "", 0, 0, 0, 0},
		{"made", change("vm", `"actions":["create"],"before":null,"after":{"size":"large"},"after_unknown":{"id":true}`), 0, 400_000, 1, 0},
		{"by type alone", change("vm", `"before":null,"after":{"size":"huge"},"after_unknown":{}`), 0, 100_000, 1, 0},
		{"first row", change("vm", `"before":null,"after":{"zone":"x","size":"small"},"after_unknown":{}`), 0, 9_000_000, 1, 0},
		{"truth", change("vm", `"before":null,"after":{"spot":true,"zone":null,"size":["large"]},"after_unknown":{}`), 0, 10_000, 1, 0},
		{"number", change("vm", `"before":null,"after":{"cores":2},"after_unknown":{}`), 0, 200_000, 1, 0},
		{"updated", change("vm", `"actions":["update"],"before":{"size":"small"},"after":{"size":"large"},"after_unknown":{}`), 50_000, 400_000, 1, 0},
		{"replaced", change("vm", `"actions":["delete","create"],"before":{"size":"small"},"after":{"size":"small"},"after_unknown":{"id":true}`), 50_000, 50_000, 1, 0},
		{"kept", change("vm", `"actions":["no-op"],"before":{"size":"small"},"after":{"size":"small"},"after_unknown":{}`), 50_000, 50_000, 1, 0},
		{"destroyed", change("vm", `"actions":["delete"],"before":{"size":"large"},"after":null,"after_unknown":false`), 400_000, 0, 1, 0},
		{"no row", change("net", `"before":null,"after":{},"after_unknown":{}`), 0, 0, 0, 1},
		{"no such value", change("disk", `"before":{"type":"ssd"},"after":{"type":"hdd"},"after_unknown":{}`), 0, 0, 0, 1},
		{"not known yet", change("vm", `"before":{"size":"small"},"after":{},"after_unknown":{"size":true}`), 0, 0, 0, 1},
		{"known before it matters", change("vm", `"before":null,"after":{"size":"large"},"after_unknown":{"spot":true}`), 0, 400_000, 1, 0},
		{"data", `{"mode":"data","type":"vm","change":{"before":null,"after":{"size":"large"}}}`, 0, 0, 0, 0},
		{"several", change("vm", `"before":null,"after":{}`) + "," + change("disk", `"before":null,"after":{"type":"ssd"}`) + "," + change("net", `"after":{}`), 0, 100_001, 2, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			plan := `{"format_version":"1.2","prior_state":{"values":[{"resource_changes":[1]}]},"resource_changes":[` + tt.change + `],"errored":false}`
			got := must.Get(table(t).Of(strings.NewReader(plan)))(t)
			want := &prices.Cost{Before: tt.before, After: tt.after, Currency: "EUR", Priced: tt.priced, Unpriced: tt.none}
			must.Match(t, "cost", got, want)
		})
	}
}

// spaces is an endless reader.
type spaces struct{}

func (spaces) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = ' '
	}
	return len(p), nil
}

// TestOfRefused refuses what is not a plan, and does not repeat its content.
func TestOfRefused(t *testing.T) {
	for _, text := range []string{"", "planted", "[]", `{"resource_changes":{}}`, `{"resource_changes":[`, `{"a":`, `{"resource_changes":[{"change":{"after":"planted"}}]}`, `{"a":` + strings.Repeat("[", 2000) + strings.Repeat("]", 2000) + `}`} {
		if got, err := table(t).Of(strings.NewReader(text)); err == nil || strings.Contains(err.Error(), "planted") {
			t.Errorf("%.40s: %+v, %v", text, got, err)
		}
	}
	if _, err := table(t).Of(spaces{}); err == nil || !strings.Contains(err.Error(), "plan of more than") {
		t.Errorf("without end: %v", err)
	}
}

func TestCostWords(t *testing.T) {
	for want, c := range map[string]*prices.Cost{
		"": nil,
		"about 0.42 EUR an hour more (0.10 → 0.52); 3 resources have no price": {Before: 100_000, After: 520_000, Priced: 2, Unpriced: 3},
		"about 0.000001 EUR an hour less (12.50 → 12.499999)":                  {Before: 12_500_000, After: 12_499_999, Priced: 1},
		"about the same, 0.125 EUR an hour; 1 resource has no price":           {Before: 125_000, After: 125_000, Priced: 1, Unpriced: 1},
		"2 resources have no price":                                            {Unpriced: 2},
	} {
		if c != nil {
			c.Currency = "EUR"
		}
		must.Equal(t, "value", c.String(), want)
	}
	must.Equal(t, "of nothing", (&prices.Cost{Currency: "EUR"}).String(), "")
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(head + "vm,size,large,0.4\nvm,,,1\n"))
	f.Add([]byte(head + "vm,a,\"b\"\"c\",000.100000\n"))
	f.Fuzz(func(t *testing.T, src []byte) {
		table, err := prices.Parse(src, "EUR")
		if err != nil {
			return
		}
		for _, row := range table.Rows {
			if row.Type == "" || row.Hourly < 0 || row.Hourly > 1_000_000_000_000 || row.Attribute == "" && row.Value != "" {
				t.Errorf("row %+v", row)
			}
		}
	})
}

func FuzzOf(f *testing.F) {
	f.Add(`{"resource_changes":[` + change("vm", `"before":{"size":"small"},"after":{"size":"large"},"after_unknown":{"id":true}`) + `]}`)
	f.Add(`{"a":[{"b":1}],"resource_changes":[{"mode":"data"}]}`)
	prices := table(f)
	f.Fuzz(func(t *testing.T, plan string) {
		c, err := prices.Of(strings.NewReader(plan))
		if err == nil && (c.Before < 0 || c.After < 0 || c.Priced < 0 || c.Unpriced < 0 || c.Priced == 0 && c.Before+c.After > 0) {
			t.Errorf("cost %+v", c)
		}
	})
}

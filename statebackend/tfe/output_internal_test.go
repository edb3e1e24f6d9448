// SPDX-License-Identifier: Apache-2.0

package tfe

import (
	"encoding/json"
	"strconv"
	"testing"

	"github.com/seed-141914ff/okara/internal/must"
)

// Shows: cloud 14
func TestExact(t *testing.T) {
	for value, want := range map[string]bool{
		`0`: true, `-0`: true, `0.0`: true, `1`: true, `0.1`: true, `-12.50`: true, `1e3`: true, `1000`: true, `1E+22`: true,
		`9007199254740993`: false, `12345678901234567890`: false, `18446744073709551616`: false, `0.12345678901234567890123`: false,
		`1e400`: false, `1e-400`: false, `1e99999999999999999999`: false, `1e-99999999999999999999`: false,
		`"12345678901234567890"`: true, `[1,{"a":[12345678901234567890]}]`: false, `{"12345678901234567890":1}`: true, `null`: true, `true`: true,
	} {
		must.Equal(t, value, isExact(json.RawMessage(value)), want)
	}
}

// FuzzExact compares with a client that keeps numbers as floats.
func FuzzExact(f *testing.F) {
	for _, s := range []string{"0", "-1.50e1", "1e400", "0.000000000000000000000000000000001", "123456789012345678"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		var n json.Number
		if json.Unmarshal([]byte(s), &n) != nil || n.String() != s {
			return
		}
		if !exactNumber(s) {
			return
		}
		f, err := strconv.ParseFloat(s, 64)
		if err != nil {
			t.Fatalf("%s is exact: %v", s, err)
		}
		again := strconv.FormatFloat(f, 'f', -1, 64)
		if !exactNumber(again) || newDecimal(again) != newDecimal(s) {
			t.Errorf("%s is exact and becomes %s", s, again)
		}
	})
}

func TestSimpleType(t *testing.T) {
	for of, want := range map[string]string{
		`"string"`: "string", `"number"`: "number", `"bool"`: "boolean", `["list","string"]`: "array", `["set","bool"]`: "array",
		`["tuple",[]]`: "array", `["map","string"]`: "object", `["object",{}]`: "object", `"dynamic"`: "string", `[]`: "string", ``: "string", `[1]`: "string",
	} {
		must.Equal(t, of, simpleType(json.RawMessage(of)), want)
	}
}

// Shows: cloud 14
func TestOutputs(t *testing.T) {
	const plain = `{"version":4,"serial":1,"lineage":"l","outputs":{
		"b":{"value":[1,2],"type":["list","number"]},
		"a":{"value":"s3cret","type":"string","sensitive":true}}}`
	of := workspaceRef{"app", "prod"}
	for _, tt := range []struct{ name, state, want string }{
		{"plain", plain, `[
			{"type":"state-version-outputs","id":"wsout-YXBwAHByb2Q.3.YQ","attributes":{"name":"a","sensitive":true,"type":"string","value":null,"detailed-type":"string"}},
			{"type":"state-version-outputs","id":"wsout-YXBwAHByb2Q.3.Yg","attributes":{"name":"b","sensitive":false,"type":"array","value":[1,2],"detailed-type":["list","number"]}}]`},
		{"a number is not exact", `{"outputs":{"a":{"value":1,"type":"number"},"b":{"value":12345678901234567890,"type":"number","sensitive":true}}}`, `[
			{"type":"state-version-outputs","id":"wsout-YXBwAHByb2Q.3.YQ","attributes":{"name":"a","sensitive":false,"type":"number","value":1}},
			{"type":"state-version-outputs","id":"wsout-YXBwAHByb2Q.3.Yg","attributes":{"name":"b","sensitive":true,"type":"number","value":null}}]`},
		{"no type", `{"outputs":{"a":{"value":1}}}`, `[
			{"type":"state-version-outputs","id":"wsout-YXBwAHByb2Q.3.YQ","attributes":{"name":"a","sensitive":false,"type":"string","value":1}}]`},
		{"encrypted", `{"serial":1,"lineage":"l","encrypted_data":"e30=","encryption_version":"v0"}`, `[
			{"type":"state-version-outputs","id":"wsout-YXBwAHByb2Q.3.ZW5jcnlwdGVk","attributes":{"name":"encrypted","sensitive":true,"type":"string","value":null}}]`},
		{"none", `{"version":4,"outputs":{}}`, `[]`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			o := must.Get(readOutputs(of, 3, []byte(tt.state)))(t)
			b := must.Get(json.Marshal(o.list()))(t)
			must.Match(t, "outputs", decoded(t, string(b)), decoded(t, tt.want))
		})
	}
	o := must.Get(readOutputs(of, 3, []byte(plain)))(t)
	r := must.Get(o.oneOutput("a"))(t)
	if value := r.Attributes.(outputAttributes).Value; string(value) != `"s3cret"` {
		t.Errorf("a sensitive output asked for by its id is %s", value)
	}
	if _, err := o.oneOutput("c"); refusedWith(err) != 404 {
		t.Errorf("an output that there is not: %v", err)
	}
}

func decoded(t *testing.T, s string) (v any) {
	t.Helper()
	if err := json.Unmarshal([]byte(s), &v); err != nil {
		t.Fatalf("%v: %s", err, s)
	}
	return v
}

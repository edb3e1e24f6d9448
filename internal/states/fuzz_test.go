// SPDX-License-Identifier: Apache-2.0

package states_test

import (
	"encoding/json"
	"testing"

	"github.com/seed-141914ff/okara/internal/states"
)

// FuzzBrowse displays any file; only sensitive values have no JSON.
func FuzzBrowse(f *testing.F) {
	f.Add([]byte(`{"version":4,"outputs":{"o":{"value":[1,{"a":null}],"sensitive":true}},"resources":[]}`))
	f.Add([]byte(`{"version":4,"resources":[{"mode":"data","type":"t","name":"n","module":"module.m","instances":[{"index_key":"k","attributes":{"a":{"password":"x"},"b":[]},"sensitive_attributes":[[{"type":"get_attr","value":"b"}]]}]}]}`))
	f.Add([]byte(`{"serial":1,"lineage":"a","encrypted_data":"eA==","encryption_version":"v0"}`))
	f.Add([]byte(`{"outputs":{"o":{"value":"\"[{\\"}}}`))
	f.Add([]byte(`{"version":3,"modules":[{"path":["root","m"],"outputs":{"o":"v"},"resources":{"data.t.n.0":{"primary":{"id":"1","attributes":{"a.%":"1"}},"deposed":[{}]}}}]}`))
	f.Add([]byte(`]]]{"a":[[[`))
	f.Fuzz(func(t *testing.T, state []byte) {
		if states.Fits(state) != nil {
			return
		}
		d, err := states.Parse(state)
		if err != nil {
			return
		}
		for _, r := range d.Resources() {
			values, ok := d.Values(r.Address)
			if !ok {
				t.Errorf("%q is listed and has no values", r.Address)
			}
			for _, v := range values {
				secret, ok := d.ShowSensitive(r.Address, v.Path)
				if !ok || !json.Valid(secret) || v.Sensitive != (v.JSON == nil) {
					t.Errorf("%q %q: sensitive %v, shown %q, is %q", r.Address, v.Path, v.Sensitive, v.JSON, secret)
				}
			}
		}
	})
}

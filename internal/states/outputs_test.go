// SPDX-License-Identifier: Apache-2.0

package states_test

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/seed-141914ff/okara/internal/states"
)

func TestOutputs(t *testing.T) {
	got, err := states.Outputs([]byte(`{"version":4,"outputs":{"url":{"value":"x","type":"string"},"key":{"value":[1],"sensitive":true}}}`))
	want := map[string]states.Output{"url": {Value: []byte(`"x"`), Type: []byte(`"string"`)}, "key": {Value: []byte(`[1]`), Sensitive: true}}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Error(err, diff)
	}
	if _, err := states.Outputs([]byte(`{"encrypted_data":"x"}`)); !errors.Is(err, states.ErrEncrypted) {
		t.Errorf("encrypted: %v", err)
	}
	if _, err := states.Outputs([]byte(`[`)); err == nil {
		t.Error("no JSON was read")
	}
}

// SPDX-License-Identifier: Apache-2.0

package api_test

import (
	"testing"

	"github.com/seed-141914ff/okara/instances/api"
)

func TestLogPosition(t *testing.T) {
	if p, err := api.ParseLogPosition("2-4096"); err != nil || p != (api.LogPosition{Attempt: 2, Offset: 4096}) {
		t.Errorf("%+v, %v", p, err)
	}
	for _, bad := range []string{"", "7", "-", "1-", "-1", "0-7", "1--7", "01-7", "1-07", "+1-7", "1-+7", "1-7 ", "1-7-8", "1-0x7", "99999999999999999999-1", "1-99999999999999999999"} {
		if p, err := api.ParseLogPosition(bad); err == nil {
			t.Errorf("%q is %+v", bad, p)
		}
	}
}

func FuzzParseLogPosition(f *testing.F) {
	for _, s := range []string{"1-0", "12-67108864", "1-", "0-0", "1--1"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		p, err := api.ParseLogPosition(s)
		if err == nil && (p.String() != s || p.Attempt < 1 || p.Offset < 0) {
			t.Errorf("%q is %+v", s, p)
		}
	})
}

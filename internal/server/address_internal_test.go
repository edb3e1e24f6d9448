// SPDX-License-Identifier: Apache-2.0

package server

import (
	"strings"
	"testing"

	"github.com/seed-141914ff/okara/internal/must"
)

func TestAddressLimits(t *testing.T) {
	for _, c := range []struct {
		change func(*Settings)
		want   string // the words with which the lines begin
	}{
		{func(*Settings) {}, ""},
		{func(s *Settings) { s.Listen = "0.0.0.0:8080" }, "without public_url"},
		{func(s *Settings) { s.Listen, s.Proxies = "0.0.0.0:8080", []string{"10.0.0.0/8"} }, ""},
		{func(s *Settings) { s.Listen, s.TLS.SelfSigned = "0.0.0.0:8080", true }, ""},
		{func(s *Settings) { s.Listen, s.PublicURL = "0.0.0.0:8080", "https://okara.example" }, ""},
		{func(s *Settings) { s.Listen, s.BasePath = "10.0.0.1:80", "/tf" }, "without public_url, with base_path"},
	} {
		s := Defaults()
		s.AnonymousRead = true
		c.change(s)
		o := must.Get(s.newOptions(Env{}))(t)
		var starts []string
		for _, line := range s.addressLimits(o) {
			starts = append(starts, strings.Join(strings.Fields(strings.ReplaceAll(line, ",", ""))[:2], " "))
		}
		if got := strings.Join(starts, ", "); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}

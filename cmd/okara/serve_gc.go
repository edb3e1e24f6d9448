// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"

	"github.com/hashicorp/hcl/v2"

	"github.com/seed-141914ff/okara/internal/embedded"
	"github.com/seed-141914ff/okara/registry"
)

// gcConfig is when the embedded registry frees space.
type gcConfig struct {
	Interval string    `hcl:"interval,optional"`
	MinAge   string    `hcl:"min_age,optional"`
	Range    hcl.Range `hcl:",def_range"`
}

func (c *gcConfig) flags(f *serveFlags, given func(flag string) bool) error {
	if c == nil {
		return nil
	}
	interval := c.Interval
	if interval == "0" || interval == "0s" {
		interval = ""
		if !given("gc-interval") {
			f.gcInterval = 0
		}
	}
	return errors.Join(
		duration(c.Range, "interval", interval, given("gc-interval"), &f.gcInterval),
		duration(c.Range, "min_age", c.MinAge, given("gc-min-age"), &f.gcMinAge),
	)
}

// collections is when the embedded registry frees space, and who is told.
func (f serveFlags) collections(m *registry.Metrics) embedded.Schedule {
	return embedded.Schedule{Every: f.gcInterval, MinAge: f.gcMinAge, Done: func(c embedded.Collected, err error) {
		if err == nil {
			m.Collected(c.Bytes, c.Used)
		}
	}}
}

// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"fmt"
	"strings"
	"time"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/catalog"
	"github.com/seed-141914ff/okara/internal/text"
)

// Bounds of the warnings of a provider, which both tools show on every init.
const (
	maxWarnings    = 5
	maxWarning     = 300
	yankWarnedDays = 90
)

const day = 24 * time.Hour

// warnings are the lines about deprecated and lately withdrawn versions, those
// with the same words together.
func warnings(l *catalog.Versions, now time.Time) []string {
	var order []string
	versions := map[string][]string{}
	add := func(words string, v addr.Version) {
		if versions[words] == nil {
			order = append(order, words)
		}
		versions[words] = append(versions[words], v.String())
	}
	for _, v := range l.Listed {
		if s := l.Status(v); s.Deprecated != nil {
			add("deprecated"+s.Deprecated.Because(), v)
		}
	}
	for _, v := range l.Versions {
		if e := l.Status(v).Yanked; e != nil && now.Sub(e.Time) < yankWarnedDays*day {
			add("withdrawn"+e.Because(), v)
		}
	}
	var lines []string
	for i, words := range order {
		if i == maxWarnings {
			lines = append(lines, fmt.Sprintf("and %d more", len(order)-i))
			break
		}
		verb := " is "
		if len(versions[words]) > 1 {
			verb = " are "
		}
		lines = append(lines, text.Clip(strings.Join(versions[words], ", ")+verb+words, maxWarning))
	}
	return lines
}

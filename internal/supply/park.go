// SPDX-License-Identifier: Apache-2.0

package supply

import (
	"errors"
	"fmt"
	"time"

	"github.com/seed-141914ff/okara/internal/text"
)

// How long a version is parked after its first failure, doubled with each, and the maximum.
const (
	parkFirst = time.Hour
	maxPark   = 24 * time.Hour
)

// parkVersion records that an origin sent too much, or crashed the process that unpacked it: a
// restarted server does not fetch it again at once.
func (vr VersionRecord) parkVersion(before VersionRecord, why error) VersionRecord {
	parked := VersionRecord{State: StateParked, Origin: vr.Origin, Since: vr.Since, Reason: text.Excerpt(why.Error())}
	if before.State == StateParked && before.Origin == vr.Origin {
		parked.Tries = before.Tries
	}
	wait := maxPark
	if parked.Tries < 5 {
		wait = min(parkFirst<<parked.Tries, maxPark)
	}
	parked.Tries++
	parked.Retry = vr.Since.Add(wait)
	return parked
}

// isResting reports whether a parked version is skipped now. A tag that moved is tried at once.
func (vr VersionRecord) isResting(o offer, now time.Time) bool {
	return vr.State == StateParked && vr.Origin == o.commit && now.Before(vr.Retry)
}

// parkedStep returns the step for a version that is skipped for now.
func (st Step) parkedStep() Step {
	st.Action = actionParked
	st.Reason = fmt.Sprintf("retry not before %s, after %d tries: %s", st.known.Retry.Format(time.DateTime+"Z"), st.known.Tries, st.known.Reason)
	st.err = errors.New(st.Reason)
	return st
}

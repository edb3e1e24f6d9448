// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"cmp"
	"strings"

	"github.com/seed-141914ff/okara/internal/envelope"
	"github.com/seed-141914ff/okara/internal/usage"
	"github.com/seed-141914ff/okara/statebackend"
)

// KeyFlags name the keys of states, and the primary of a replicated repository.
type KeyFlags struct {
	Keys       []string
	Identities []string
	Primary    string
}

// StateOptions returns the options of a store: those of a backend block without further
// arguments, with the keys of the command line.
func (f *KeyFlags) StateOptions(a *App) (statebackend.Options, error) {
	o := statebackend.Options{Tool: a.UserAgent(), Logger: a.WarnLogger(), StrictReads: true, Usage: usage.RecordState(a.Getenv)}
	_, o.Primary, _ = strings.Cut(cmp.Or(f.Primary, a.Getenv("OKARA_STATE_PRIMARY")), "/") // without the host
	keys := append(strings.Fields(a.Getenv("OKARA_STATE_KEYS")), f.Keys...)
	identities := append(strings.Fields(a.Getenv("OKARA_STATE_IDENTITIES")), f.Identities...)
	if len(keys)+len(identities) > 0 {
		e, err := envelope.New(envelope.Options{Keys: keys, Identities: identities})
		if err != nil {
			return o, &ExitError{Code: ExitUsage, Err: err}
		}
		o.Sealer = e
	}
	return o, nil
}

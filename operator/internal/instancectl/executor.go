// SPDX-License-Identifier: Apache-2.0

package instancectl

import (
	"context"
	"encoding/json"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/seed-141914ff/okara/instances/lifecycle"
	"github.com/seed-141914ff/okara/instances/run"
	"github.com/seed-141914ff/okara/instances/template"
)

// Attempt is one execution for an instance: all that an executor needs.
type Attempt struct {
	lifecycle.Ref
	UID       types.UID // of the Instance
	Started   time.Time
	Namespace string // of what the instance makes in the cluster; it is there
	Template  *template.Template
	Source    template.Source
	Variables map[string]json.RawMessage
	Approved  string // the plan that somebody let through; "": none
}

// Executor carries attempts out. Each method may be repeated: the same Ref is one run,
// and what is done already is not done again.
type Executor interface {
	// Run brings an attempt of the kinds apply, plan and drift further, and tells how it
	// goes. It never waits.
	Run(ctx context.Context, a Attempt) (run.Status, error)
	// Destroy takes the next step to the end of all that an instance made, and tells how
	// that goes. Ended with [lifecycle.Done] means that nothing is left, the state
	// included.
	Destroy(ctx context.Context, a Attempt) (run.Status, error)
	// Cancel asks an attempt to end early; Run tells when it has.
	Cancel(ctx context.Context, a Attempt) error
	// Release leaves what an instance made to people, and reports whether nobody runs it
	// any more.
	Release(ctx context.Context, a Attempt) (bool, error)
}

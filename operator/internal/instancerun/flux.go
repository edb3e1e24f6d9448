// SPDX-License-Identifier: Apache-2.0

package instancerun

import (
	"context"

	"github.com/seed-141914ff/okara/instances/run"
	"github.com/seed-141914ff/okara/operator/internal/instancectl"
)

// Flux carries each attempt out by what its source needs: modules by Terraforms, charts by
// HelmReleases. It implements [instancectl.Executor].
type Flux struct {
	Modules *Terraform
	Charts  *Helm
}

func (f Flux) of(a instancectl.Attempt) instancectl.Executor {
	if a.Source.Chart != "" {
		return f.Charts
	}
	return f.Modules
}

// Run brings an attempt further.
func (f Flux) Run(ctx context.Context, a instancectl.Attempt) (run.Status, error) {
	return f.of(a).Run(ctx, a)
}

// Destroy takes the next step to the end of what an instance made.
func (f Flux) Destroy(ctx context.Context, a instancectl.Attempt) (run.Status, error) {
	return f.of(a).Destroy(ctx, a)
}

// Cancel asks an attempt to end early.
func (f Flux) Cancel(ctx context.Context, a instancectl.Attempt) error { return f.of(a).Cancel(ctx, a) }

// Release leaves what an instance made to people.
func (f Flux) Release(ctx context.Context, a instancectl.Attempt) (bool, error) {
	return f.of(a).Release(ctx, a)
}

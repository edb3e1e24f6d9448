// SPDX-License-Identifier: Apache-2.0

package portal

import (
	"context"
	"errors"

	"github.com/seed-141914ff/okara/internal/instance"
)

// Templates are those that may be launched now. It is safe for concurrent use.
type Templates struct{}

// Entry is one template, and the module version that it means now.
type Entry struct {
	Template *instance.Template
	Digest   string           // of Template
	Source   instance.Source  // zero while there is a Problem
	Schema   *instance.Schema // nil while there is a Problem
	From     string           // FILE:LINE, or REPOSITORY:TAG@DIGEST
	// Problem is why no instance can be made of it now: the module is not to be
	// had or does not fit. "": it can. A pool pauses with it.
	Problem string
}

// TemplateProblem is what is wrong with a file or an artifact. The templates
// that were read of it last stay.
type TemplateProblem struct {
	From string // file or repository
	Text string // template NAME: FILE:LINE: …
}

// Run reads the templates again every 30 s until ctx ends.
func (t *Templates) Run(ctx context.Context) error { return errors.ErrUnsupported }

// Current returns the template of a name.
func (t *Templates) Current(name string) (*Entry, bool) { return nil, false }

// All are the templates, by name.
func (t *Templates) All() []Entry { return nil }

// Problems are what is wrong now with files and artifacts.
func (t *Templates) Problems() []TemplateProblem { return nil }

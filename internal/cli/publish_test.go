// SPDX-License-Identifier: Apache-2.0

package cli_test

import (
	"context"
	"slices"
	"testing"
	"testing/fstest"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/archive"
	"github.com/seed-141914ff/okara/internal/cli"
	"github.com/seed-141914ff/okara/internal/depot"
	"github.com/seed-141914ff/okara/internal/must"
)

// published is a registry that has a version with these files.
type published struct {
	files []string
	asked int
}

func (p *published) ModuleThere(_ context.Context, _ addr.ModuleVersion, plan *depot.ModulePlan, _ depot.ModuleOptions) (bool, error) {
	p.asked++
	return slices.Equal(p.files, names(plan.Tree)), nil
}

func names(t *archive.Tree) (all []string) {
	for _, f := range t.Files {
		all = append(all, f.Path)
	}
	return all
}

// TestKeepRules: a folder published before tracked files shipped is the same version.
func TestKeepRules(t *testing.T) {
	all := []string{"f.zip", "main.tf"}
	for _, tt := range []struct {
		name          string
		ignore        string
		stored, ships []string
		asked         int
	}{
		{"new", "*.zip", nil, all, 1},
		{"published by the former rules", "*.zip", []string{"main.tf"}, []string{"main.tf"}, 1},
		{"published by the rules of today", "*.zip", all, all, 1},
		{"no file that is ignored and tracked", "*.log", []string{"main.tf"}, all, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tree := fstest.MapFS{".gitignore": {Data: []byte(tt.ignore)}, "main.tf": {}, "f.zip": {}}
			o := depot.ModuleOptions{Hold: &archive.HoldBack{Checkout: tree, At: ".", Tracked: all}, Ignore: []string{".gitignore"}}
			to := &published{files: tt.stored}
			cli.KeepRules(t.Context(), to, tree, addr.ModuleVersion{}, &o)
			plan := must.Get(depot.PlanModule(t.Context(), tree, addr.ModuleVersion{}, o))(t)
			if got := names(plan.Tree); !slices.Equal(got, tt.ships) || to.asked != tt.asked || plan.Tree != o.Tree {
				t.Errorf("ships %q after %d questions", got, to.asked)
			}
			must.Equal(t, "told what is held back", len(cli.HeldBack(o.Hold)) > 0, (len(tt.ships) == 1))
		})
	}
}

// SPDX-License-Identifier: Apache-2.0

package supply_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/supply"
)

// TestEntryFromCodeIsThatOfAFile: entries from values and from files are equal.
func TestEntryFromCodeIsThatOfAFile(t *testing.T) {
	set := must.Get(supply.ParseSet("depot.hcl", []byte(setHCL)))(t)
	scan := supply.ScanPolicy{Scanner: "trivy", Block: "high", MaxAge: 168 * time.Hour}
	vpc := must.Get(supply.ModuleSpec{
		Address: "net/vpc/aws", Source: "github.com/acme/terraform-aws-vpc//modules/vpc", Releases: true,
		EntrySpec: supply.EntrySpec{Versions: ">= 1.2.0, < 3.0.0", Auth: "acme", Keep: 3, Scan: scan},
	}.Entry(set.Modules[0].Where))(t)
	provider := must.Get(supply.ProviderSpec{
		Address: "hashicorp/time", Platforms: []string{"linux_amd64"},
		EntrySpec: supply.EntrySpec{
			Versions: "~> 0.14", Keep: 10, Scan: scan,
			Approval: supply.ApprovalPolicy{Required: true, Patch: true, OlderAge: 72 * time.Hour},
		},
	}.Entry(set.Providers[0].Where))(t)
	same := cmp.Options{cmp.Comparer(func(a, b addr.Constraint) bool { return a.String() == b.String() }), cmpopts.EquateEmpty()}
	must.Match(t, "value", vpc, set.Modules[0], same)
	must.Match(t, "value", provider, set.Providers[0], same)
}

// TestEntryNamesTheField: mistakes in files and values have one message.
func TestEntryNamesTheField(t *testing.T) {
	module := supply.ModuleSpec{Address: "a/b/c", Source: "d/e/f"}
	provider := supply.ProviderSpec{Address: "a/b"}
	for field, test := range map[string]struct {
		spec func() error
		hcl  string
	}{
		"address":  {func() error { m := module; m.Address = "vpc"; return entry(m.Entry("x")) }, `module "vpc" { source = "d/e/f" }`},
		"source":   {func() error { m := module; m.Source = "https://x.test/a.zip"; return entry(m.Entry("x")) }, `module "a/b/c" { source = "https://x.test/a.zip" }`},
		"policy":   {func() error { m := module; m.Policy = "free"; return entry(m.Entry("x")) }, "module \"a/b/c\" {\n source = \"d/e/f\"\n policy = \"free\"\n}"},
		"releases": {func() error { m := module; m.Releases = true; return entry(m.Entry("x")) }, "module \"a/b/c\" {\n source = \"d/e/f\"\n releases = true\n}"},
		"versions": {func() error { p := provider; p.Versions = "newest"; return entry(p.Entry("x")) }, `provider "a/b" { versions = "newest" }`},
		"limit":    {func() error { p := provider; p.Limit = -1; return entry(p.Entry("x")) }, `provider "a/b" { limit = -1 }`},
		"keep":     {func() error { p := provider; p.Keep = -1; return entry(p.Entry("x")) }, `provider "a/b" { keep = -1 }`},
		"pin[1]": {func() error { p := provider; p.Pin = []string{"1.0.0", "1.0"}; return entry(p.Entry("x")) },
			`provider "a/b" { pin = ["1.0.0", "1.0"] }`},
		"platforms[0]": {func() error { p := provider; p.Platforms = []string{"linux"}; return entry(p.Entry("x")) }, `provider "a/b" { platforms = ["linux"] }`},
		"scan.block": {func() error { p := provider; p.Scan.Block = "huge"; return entry(p.Entry("x")) },
			"provider \"a/b\" {\n scan {\n scanner = \"s\"\n block = \"huge\"\n }\n}"},
		"scan.maxAge":        {func() error { p := provider; p.Scan.MaxAge = -time.Hour; return entry(p.Entry("x")) }, ""},
		"approval.olderThan": {func() error { p := provider; p.Approval.OlderAge = -1; return entry(p.Entry("x")) }, ""},
	} {
		t.Run(field, func(t *testing.T) {
			fields, ok := errors.AsType[supply.FieldErrors](test.spec())
			if !ok || len(fields) != 1 || fields[0].Field != field {
				t.Fatalf("got %v, want a mistake in %s", fields, field)
			}
			if test.hcl == "" {
				return
			}
			_, err := supply.ParseSet("x.hcl", []byte(test.hcl))
			if err == nil || !strings.Contains(err.Error(), fields[0].Err.Error()) {
				t.Errorf("the file says %v, the value %v", err, fields[0].Err)
			}
		})
	}
}

func entry[T any](_ T, err error) error { return err }

func TestEntryTellsAllMistakes(t *testing.T) {
	_, err := supply.ModuleSpec{Address: "vpc", Source: "d/e/f", EntrySpec: supply.EntrySpec{Versions: "newest"}}.Entry("x")
	fields, _ := errors.AsType[supply.FieldErrors](err)
	if len(fields) != 2 || fmt.Sprint(fields) != err.Error() || !strings.HasPrefix(err.Error(), "address: ") || !strings.Contains(err.Error(), "; versions: ") {
		t.Errorf("got %v", err)
	}
}

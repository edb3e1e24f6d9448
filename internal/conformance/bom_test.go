// SPDX-License-Identifier: Apache-2.0

package conformance_test

import (
	"bytes"
	"os/exec"
	"testing"

	"github.com/CycloneDX/cyclonedx-go"
	spdxjson "github.com/spdx/tools-golang/json"
	"github.com/spdx/tools-golang/spdx"
	"github.com/spdx/tools-golang/spdxlib"

	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/ocitest"
	"github.com/seed-141914ff/okara/internal/usage"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/statebackend"
)

// TestBOM has the libraries of CycloneDX and SPDX read what a state was made of.
func TestBOM(t *testing.T) {
	host := ocitest.New(t, ocitest.Quirks{})
	client := must.Get(oci.New(host, oci.Options{PlainHTTP: true}))(t)
	const sum = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
	d := &usage.Document{
		Recorded:  usage.Partial,
		Modules:   []usage.Module{{Source: "okara.test/net/vpc/aws", Version: "5.2.0", Digest: "sha256:" + sum, Paths: []string{"a", "b.c"}}, {Source: "okara.test/net/vpc/aws", Version: "5.2.0", Digest: "h1:x"}, {Source: "./own"}},
		Providers: []usage.Provider{{Source: "registry.opentofu.org/hashicorp/aws", Version: "6.1.0", Hash: "zh:" + sum}, {Source: "registry.opentofu.org/hashicorp/null", Hash: "h1:x"}},
	}
	s := statebackend.New(must.Get(client.Repo("state/shop"))(t), statebackend.Options{Usage: func(_, _ []byte) []byte { return d.Encode() }})
	must.Succeed(t, s.Hold(t.Context(), "default", statebackend.LockInfo{ID: "a"}, func(l *statebackend.Lock) error {
		_, err := l.Put(t.Context(), []byte(`{"version":4,"serial":1,"lineage":"x"}`))
		return err
	}))
	okara := buildOkara(t)
	bill := func(format string) *bytes.Reader {
		return bytes.NewReader(must.Get(exec.CommandContext(t.Context(), okara, "state", "uses", host+"/state/shop", "--format", format).Output())(t))
	}
	var c cyclonedx.BOM
	must.Succeed(t, cyclonedx.NewBOMDecoder(bill("cyclonedx"), cyclonedx.BOMFileFormatJSON).Decode(&c))
	refs := map[string]bool{}
	hashes := 0
	for _, one := range *c.Components {
		refs[one.BOMRef] = true
		if one.Hashes != nil {
			hashes++
		}
	}
	must.Equal(t, "components of CycloneDX", len(refs), 5)
	must.Equal(t, "with a hash", hashes, 2)
	must.Equal(t, "dependencies", len(*(*c.Dependencies)[0].Dependencies), 5)
	must.Equal(t, "aggregate", (*c.Compositions)[0].Aggregate, cyclonedx.CompositionAggregateIncomplete)
	must.Equal(t, "specification", c.SpecVersion, cyclonedx.SpecVersion1_6)

	var p spdx.Document
	must.Succeed(t, spdxjson.ReadInto(bill("spdx"), &p))
	must.Succeed(t, spdxlib.ValidateDocument(&p))
	must.Equal(t, "packages of SPDX", len(p.Packages), 6)
	must.Equal(t, "relations", len(p.Relationships), 6)
	must.Equal(t, "checksums", len(p.Packages[2].PackageChecksums)+len(p.Packages[5].PackageChecksums), 0) // hashes of files
	must.Equal(t, "checksum", p.Packages[3].PackageChecksums[0].Value+p.Packages[4].PackageChecksums[0].Value, sum+sum)
}

// SPDX-License-Identifier: Apache-2.0

package main

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/opencontainers/go-digest"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/buildinfo"
	"github.com/seed-141914ff/okara/internal/usage"
)

// bom is a bill of materials of a version of a state. The libraries of the two formats, which judge it in
// internal/conformance, would take more of the program than this file.
type bom struct {
	state   string // REPOSITORY, workspace NAME
	version int64
	made    time.Time
	*usage.Document
}

// encode returns a bill in a format of [isBOM].
func (b bom) encode(format string) ([]byte, error) {
	if format == "spdx" {
		return json.MarshalIndent(b.spdx(), "", "  ")
	}
	return json.MarshalIndent(b.cyclone(), "", "  ")
}

func isBOM(format string) bool { return format == "cyclonedx" || format == "spdx" }

// sum is identical for the same bill.
func (b bom) sum() [32]byte {
	return sha256.Sum256(fmt.Appendf(nil, "%s\n%d\n%s", b.state, b.version, b.Encode()))
}

// part is a module or provider of a bill.
type part struct {
	kind, source, version string
	sha256                string // of the package, in hexadecimal; "": not known
	facts                 [][2]string
}

func (b bom) parts() (all []part) {
	for _, m := range b.Modules {
		p := part{kind: addr.KindModule, source: m.Source, version: m.Version}
		p.setHash(m.Digest)
		for _, path := range m.Paths {
			p.facts = append(p.facts, [2]string{"okara:path", path})
		}
		all = append(all, p)
	}
	for _, v := range b.Providers {
		p := part{kind: addr.KindProvider, source: v.Source, version: v.Version}
		if sum, ok := strings.CutPrefix(v.Hash, "zh:"); ok {
			p.setHash("sha256:" + sum)
		} else {
			p.setHash(v.Hash)
		}
		all = append(all, p)
	}
	return all
}

// setHash takes a hash, of the package only if it is its digest.
func (p *part) setHash(hash string) {
	if d := digest.Digest(hash); d.Validate() == nil && d.Algorithm() == digest.SHA256 {
		p.sha256 = d.Encoded()
	} else if hash != "" {
		p.facts = append(p.facts, [2]string{"okara:hash", hash})
	}
}

// cycloneComponent is a component of CycloneDX 1.6: https://cyclonedx.org/docs/1.6/json/
type cycloneComponent struct {
	Type       string              `json:"type"`
	Ref        string              `json:"bom-ref,omitempty"`
	Name       string              `json:"name"`
	Version    string              `json:"version,omitempty"`
	Hashes     []map[string]string `json:"hashes,omitempty"`
	Properties []map[string]string `json:"properties,omitempty"`
}

func (b bom) cyclone() any {
	const state = "state"
	sum := b.sum()
	components, refs := []cycloneComponent{}, []string{}
	for _, p := range b.parts() {
		c := cycloneComponent{Type: "library", Ref: p.kind + ":" + p.source + "@" + p.version, Name: p.source, Version: p.version}
		if slices.Contains(refs, c.Ref) { // with another digest
			c.Ref += "#" + strconv.Itoa(len(refs))
		}
		for _, f := range append(p.facts, [2]string{"okara:kind", p.kind}) {
			c.Properties = append(c.Properties, map[string]string{"name": f[0], "value": f[1]})
		}
		if p.sha256 != "" {
			c.Hashes = append(c.Hashes, map[string]string{"alg": "SHA-256", "content": p.sha256})
		}
		components = append(components, c)
		refs = append(refs, c.Ref)
	}
	aggregate := "complete"
	if b.Recorded != usage.Complete {
		aggregate = "incomplete"
	}
	return map[string]any{
		"bomFormat": "CycloneDX", "specVersion": "1.6", "version": 1, "serialNumber": uuid.NewSHA1(uuid.Nil, sum[:]).URN(),
		"metadata": map[string]any{
			"timestamp": b.made.UTC().Format(time.RFC3339), "tools": map[string]any{"components": []cycloneComponent{{Type: "application", Name: "okara", Version: buildinfo.Version()}}},
			"component": cycloneComponent{Type: "application", Ref: state, Name: b.state, Version: strconv.FormatInt(b.version, 10)},
		},
		"components":   components,
		"dependencies": []map[string]any{{"ref": state, "dependsOn": refs}},
		"compositions": []map[string]any{{"aggregate": aggregate, "dependencies": []string{state}}},
	}
}

// spdxPackage is a package of SPDX 2.3: https://spdx.github.io/spdx-spec/v2.3/package-information/
type spdxPackage struct {
	Name     string         `json:"name"`
	ID       string         `json:"SPDXID"`
	Version  string         `json:"versionInfo,omitempty"`
	Location string         `json:"downloadLocation"`
	Analyzed bool           `json:"filesAnalyzed"`
	Sums     []spdxChecksum `json:"checksums,omitempty"`
	Comment  string         `json:"comment,omitempty"`
}

type spdxChecksum struct {
	Algorithm string `json:"algorithm"`
	Value     string `json:"checksumValue"`
}

func (b bom) spdx() any {
	const none, state = "NOASSERTION", "SPDXRef-state"
	packages := []spdxPackage{{Name: b.state, ID: state, Version: strconv.FormatInt(b.version, 10), Location: none, Comment: "record: " + b.Recorded}}
	relations := []map[string]string{{"spdxElementId": "SPDXRef-DOCUMENT", "relationshipType": "DESCRIBES", "relatedSpdxElement": state}}
	for i, p := range b.parts() {
		made := spdxPackage{Name: p.source, ID: fmt.Sprintf("SPDXRef-%s-%d", p.kind, i), Version: p.version, Location: none}
		if p.sha256 != "" {
			made.Sums = []spdxChecksum{{"SHA256", p.sha256}}
		}
		for _, f := range p.facts {
			made.Comment = strings.TrimSpace(made.Comment + "\n" + f[0] + "=" + f[1])
		}
		packages = append(packages, made)
		relations = append(relations, map[string]string{"spdxElementId": state, "relationshipType": "DEPENDS_ON", "relatedSpdxElement": made.ID})
	}
	return map[string]any{
		"spdxVersion": "SPDX-2.3", "dataLicense": "CC0-1.0", "SPDXID": "SPDXRef-DOCUMENT", "name": b.state,
		"documentNamespace": fmt.Sprintf("https://spdx.org/spdxdocs/okara-%x", b.sum()),
		"creationInfo":      map[string]any{"created": b.made.UTC().Format(time.RFC3339), "creators": []string{"Tool: okara-" + buildinfo.Version()}},
		"packages":          packages, "relationships": relations,
	}
}

// SPDX-License-Identifier: Apache-2.0

package depot_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/depot"
	"github.com/seed-141914ff/okara/internal/depottest"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/ocitest"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/oci/artifact/evidence"
)

// TestRetentionRecipe holds zot's rules on docs/operate/registries.md to every kind of tag: only
// versions are counted.
func TestRetentionRecipe(t *testing.T) {
	page := string(must.Get(os.ReadFile("../../docs/operate/registries.md"))(t))
	_, recipe, _ := strings.Cut(page, "```json\n")
	recipe, _, _ = strings.Cut(recipe, "```")
	var rules struct {
		KeepTags []struct {
			Patterns []string
			Count    int `json:"mostRecentlyPushedCount"`
		}
	}
	must.Succeed(t, json.Unmarshal([]byte(recipe), &rules))

	d, client := depottest.NewDepot(t, ocitest.New(t, ocitest.Quirks{NoDelete: true}), oci.Options{TagParts: true})
	publish := func(version, text string, o depot.ModuleOptions) error {
		_, err := d.PublishModule(t.Context(), depottest.NewModule(text), depottest.MustModule(t, "net/vpc/aws", version), o)
		return err
	}
	held := errors.New("held")
	must.Succeed(t, publish("1.0.0", "# a\n", depot.ModuleOptions{}))
	must.Succeed(t, publish("1.0.0", "# b\n", depot.ModuleOptions{Policy: depot.PolicyEditions}))
	if err := publish("2.0.0", "", depot.ModuleOptions{Check: func(context.Context, depot.Candidate) error { return held }}); !errors.Is(err, held) {
		t.Fatal(err)
	}
	must.GetBoth(d.Announce(t.Context(), depottest.VPC().Item(), depot.Announcement{Action: evidence.ActionDeprecate, Version: "1.0.0"}))(t)
	for _, platforms := range [][]string{{"linux_amd64"}, {"linux_amd64", "darwin_arm64"}} {
		must.Get(d.PublishProvider(t.Context(), depottest.NewDist(t, platforms...), depottest.DNS(), depottest.MustVersion(t, "1.2.3"), depot.ProviderOptions{SignKey: mustKey(t), Extend: true}))(t)
	}
	r := depottest.MustRepo(t, client, depottest.ModuleRepo)
	root := depottest.MustFetch(t, r, "1.0.0").Descriptor
	must.Get(evidence.AddCosignSignature(t.Context(), r, root, evidence.CosignSignature{Payload: must.Get(evidence.CosignPayload(r.String(), root.Digest))(t), Signature: []byte("x")}))(t)

	tags := slices.Concat(mustVersions(t, d, depottest.VPC().Item()).Tags, mustVersions(t, d, depottest.DNS().Item()).Tags)
	for _, kind := range []string{"latest", "sha256-", "okara-status-", "okara-time-", "okara-publish-", "okara-candidate-", "okara-index-", oci.PartPrefix} {
		if !slices.ContainsFunc(tags, func(tag string) bool { return strings.HasPrefix(tag, kind) }) {
			t.Errorf("no tag %s…: %q", kind, tags)
		}
	}
	for _, tag := range tags {
		_, version := addr.VersionFromTag(tag)
		for _, rule := range rules.KeepTags {
			matches := slices.ContainsFunc(rule.Patterns, func(p string) bool { return regexp.MustCompile(p).MatchString(tag) })
			if counts := rule.Count > 0; matches != (counts == version) {
				t.Errorf("%s is a version: %v; a rule of %q matches: %v", tag, version, rule.Patterns, matches)
			}
		}
	}
}

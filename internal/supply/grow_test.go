// SPDX-License-Identifier: Apache-2.0

package supply_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/depot"
	"github.com/seed-141914ff/okara/internal/depottest"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/signing"
	"github.com/seed-141914ff/okara/internal/supply"
	"github.com/seed-141914ff/okara/oci/artifact"
	"github.com/seed-141914ff/okara/oci/artifact/evidence"
)

func providerEntry(more string) string {
	return fmt.Sprintf("provider \"registry.example.com/acme/dns\" {\n versions = \"~> 1.0\"\n%s\n}\n", more)
}

func TestSyncAddsPlatforms(t *testing.T) {
	r := newRunner(t)
	src := depottest.NewRelease(t, depottest.NewKey(t, signing.KeyOptions{Name: "A"}), "linux_amd64", "darwin_arm64", "windows_amd64")
	src.Offers = []addr.Version{depottest.MustVersion(t, "1.2.3")}
	r.src = src
	platforms := func(want int) {
		t.Helper()
		x, err := artifact.ParseProviderIndex(depottest.MustFetch(t, depottest.MustRepo(t, r.client, "p/mirror/registry.example.com/acme/dns"), "1.2.3"))
		if err != nil || len(x.Platforms) != want {
			t.Errorf("%d platforms, %v, want %d", len(x.Platforms), err, want)
		}
	}
	differences := func(src string, want ...string) {
		t.Helper()
		p := must.Get(r.syncer(src).Plan(t.Context()))(t)
		rec := must.Get(supply.ReadRecord(t.Context(), r.depot))(t)
		set := must.Get(supply.ParseSet("depot.hcl", []byte(src)))(t)
		var got []string
		for _, s := range p.Steps {
			got = append(got, fmt.Sprintf("plan %s: %s", s.Action, s.Reason))
		}
		for _, d := range p.Kept {
			got = append(got, fmt.Sprintf("kept %s: %s", d.Version, d.Reason))
		}
		for _, d := range must.Get(set.Differences(t.Context(), r.depot, rec))(t) {
			got = append(got, fmt.Sprintf("status %s: %s", d.Version, d.Reason))
		}
		r.want(got, want...)
	}
	one := providerEntry(`platforms = ["linux_amd64"]`)
	r.apply(one)
	differences(one, "plan present: ")
	two := providerEntry(`platforms = ["linux_amd64", "darwin_arm64", "plan9_arm"]
approval {
 required = true
}`)
	differences(two, "plan extend: lacks darwin_arm64",
		"status 1.2.3: published without all of linux_amd64, darwin_arm64, plan9_arm, as far as recorded; the next run checks")
	r.want(r.apply(two), "extend 1.2.3 published")
	platforms(2)
	differences(two, "plan present: the origin has no package for plan9_arm", "status 1.2.3: the origin has no package for plan9_arm")
	r.count.Take()
	r.want(r.apply(two), "present 1.2.3")
	if n := r.writes(); n != 0 {
		t.Errorf("an unchanged run wrote %d times", n)
	}

	// another process adds a platform
	must.Get(r.depot.MirrorProvider(t.Context(), src, depottest.UpstreamDNS(), src.Offers[0], depot.MirrorOptions{}))(t)
	platforms(3)
	differences(two, "plan adopt: platforms were added by another process or user", "status 1.2.3: the origin has no package for plan9_arm")
	r.want(r.apply(two), "adopt 1.2.3 published")
	all := providerEntry("")
	r.want(r.apply(all), "present 1.2.3")
	differences(all, "plan present: ")

	// versions that only the registry has, or had
	repo := depottest.MustRepo(t, r.client, "p/mirror/registry.example.com/acme/dns")
	was := depottest.MustFetch(t, repo, "1.2.3")
	must.Succeed(t, repo.PutTag(t.Context(), "1.2.4", was))
	differences(all, "plan present: ", "kept 1.2.4: the origin does not have it", "status 1.2.4: in the registry, but not in the record: published by another process or user")
	must.Succeed(t, repo.Untag(t.Context(), "1.2.4"))
	must.Succeed(t, repo.Untag(t.Context(), "1.2.3"))
	differences(all, `plan publish: allowed by "~> 1.0"`, "status 1.2.3: published by an earlier run, but no longer in the registry")
	must.Succeed(t, repo.PutTag(t.Context(), "1.2.3", was))
	announce := func(action string, untag bool) {
		must.GetBoth(r.depot.Announce(t.Context(), depottest.UpstreamDNS().Item(), depot.Announcement{Action: action, Version: "1.2.3", DeleteTag: untag}))(t)
	}
	announce(evidence.ActionYank, false)
	differences(all, "plan present: version 1.2.3 was withdrawn; it is not served until it is unyanked", "status 1.2.3: version 1.2.3 was withdrawn; it is not served until it is unyanked")
	announce(evidence.ActionYank, true)
	withdrawn := fmt.Sprintf("1.2.3: %s:1.2.3 was withdrawn; version numbers are not reused", repo)
	differences(all, "plan withdrawn: "+strings.TrimPrefix(withdrawn, "1.2.3: "), "status "+withdrawn)
	announce(evidence.ActionUnyank, false)

	// what the file does not ask for any more
	narrowed := "provider \"registry.example.com/acme/dns\" {\n versions = \"~> 2.0\"\n}\n" + moduleEntry(newOrigin(t, "v0.1.0"), "")
	differences(narrowed, `kept 1.2.3: not allowed by "~> 2.0"`, `status 1.2.3: not allowed by "~> 2.0"`, "status : in the depot file, but no run has published a version")
	differences("", "kept : published by an earlier run, no longer in the depot file", "status : published by an earlier run, no longer in the depot file")

	// other content under the tag is drift
	tags := must.Get(repo.Snapshot(t.Context()))(t).Tags
	before := slices.IndexFunc(tags, func(tag string) bool { return strings.HasPrefix(tag, "okara-index-") })
	must.Succeed(t, repo.PutTag(t.Context(), "1.2.3", depottest.MustFetch(t, repo, tags[before])))
	r.want(r.apply(one), "drift 1.2.3 drift")

	// a version that another one hides
	r = newRunner(t)
	module := moduleEntry(newOrigin(t, "v1.0.0"), "")
	r.apply(module)
	repo = depottest.MustRepo(t, r.client, depottest.ModuleRepo)
	for _, tag := range []string{"1.0.0_x", "okara-time-0000000000001-1.0.0_x"} {
		must.Succeed(t, repo.PutTag(t.Context(), tag, depottest.MustFetch(t, repo, "1.0.0")))
	}
	hidden := fmt.Sprintf("version 1.0.0 of %s is not available: to OpenTofu and Terraform it is 1.0.0+x, which was published first: not found", repo)
	differences(module, "plan withdrawn: "+hidden, "kept 1.0.0+x: the origin does not have it", "status 1.0.0+x: in the registry, but not in the record: published by another process or user", "status 1.0.0: "+hidden)
}

// TestSyncAddsLaterPlatforms to a version that the record calls complete.
func TestSyncAddsLaterPlatforms(t *testing.T) {
	for _, asked := range []string{"", `platforms = ["linux_amd64", "darwin_arm64", "windows_amd64"]`} {
		r := newRunner(t)
		src := depottest.NewRelease(t, depottest.NewKey(t, signing.KeyOptions{Name: "A"}), "linux_amd64", "darwin_arm64", "windows_amd64")
		src.Offers = []addr.Version{depottest.MustVersion(t, "1.2.3")}
		all, zips := src.Has, maps.Clone(src.Dist)
		offer := func(n int) {
			src.Has = all[:n]
			for i, platform := range all {
				name := depottest.Stem + platform + ".zip"
				if delete(src.Dist, name); i < n {
					src.Dist[name] = zips[name]
				}
			}
		}
		offer(1)
		r.src = src
		file := providerEntry(asked)
		r.want(r.apply(file), "publish 1.2.3 published")
		for n, daily := range []bool{false, true} {
			offer(n + 2)
			r.repair = false
			r.examined = r.now
			r.want(r.plan(file), "present 1.2.3")
			if r.repair = !daily; daily {
				r.examined = r.now.Add(-25 * time.Hour)
			}
			r.want(r.plan(file), "extend 1.2.3")
			r.want(r.apply(file), "extend 1.2.3 published")
			r.want(r.apply(file), "present 1.2.3")
			x := must.Get(artifact.ParseProviderIndex(depottest.MustFetch(t, depottest.MustRepo(t, r.client, "p/mirror/registry.example.com/acme/dns"), "1.2.3")))(t)
			must.Equal(t, "platforms", len(x.Platforms), n+2)
		}
	}
}

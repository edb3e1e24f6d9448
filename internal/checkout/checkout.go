// SPDX-License-Identifier: Apache-2.0

package checkout

import (
	"cmp"
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/oci/artifact"
)

// Annotations returns what the environment says about the source: GitHub
// Actions and GitLab CI name the repository, the revision and the reference.
// Only SOURCE_DATE_EPOCH or the time of the commit is a creation time, so that
// the same source gives the same artifact at any time.
func Annotations(getenv func(string) string) (map[string]string, error) {
	annotations := map[string]string{}
	set := func(key, value string) {
		if value != "" {
			annotations[key] = value
		}
	}
	if repository := getenv("GITHUB_REPOSITORY"); repository != "" {
		set(artifact.AnnSource, cmp.Or(getenv("GITHUB_SERVER_URL"), "https://github.com")+"/"+repository)
	}
	set(artifact.AnnRevision, cmp.Or(getenv("GITHUB_SHA"), getenv("CI_COMMIT_SHA")))
	set(artifact.AnnSourceRef, cmp.Or(getenv("GITHUB_REF_NAME"), getenv("CI_COMMIT_REF_NAME")))
	set(artifact.AnnSource, getenv("CI_PROJECT_URL"))
	if s := getenv("CI_COMMIT_TIMESTAMP"); s != "" {
		if t, err := time.Parse(time.RFC3339, s); err == nil {
			set(artifact.AnnCreated, t.UTC().Format(time.RFC3339))
		}
	}
	if s := getenv("SOURCE_DATE_EPOCH"); s != "" {
		seconds, err := strconv.ParseInt(s, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("invalid SOURCE_DATE_EPOCH %q: must be a number of seconds", s)
		}
		set(artifact.AnnCreated, time.Unix(seconds, 0).UTC().Format(time.RFC3339))
	}
	return annotations, nil
}

// Tags are the git tags of a commit that name a version.
type Tags []tag

// tag is a git tag that names a version, and optionally the directory that it is for.
type tag struct {
	dir     string
	version addr.Version
}

// NoVersionError says that none of a commit's tags names a version.
type NoVersionError struct{ Tags []string }

func (e *NoVersionError) Error() string {
	return fmt.Sprintf("no version tag at HEAD, found %q", e.Tags)
}

// Versions returns the versions of the commit: the tag that started the CI job, else the
// tags at HEAD of the repository that contains dir. If there are none the error is a
// *NoVersionError.
func Versions(ctx context.Context, dir string, getenv func(string) string) (Tags, error) {
	var names []string
	switch {
	case getenv("GITHUB_REF_TYPE") == "tag":
		names = []string{getenv("GITHUB_REF_NAME")}
	case getenv("CI_COMMIT_TAG") != "":
		names = []string{getenv("CI_COMMIT_TAG")}
	default:
		out, err := runGit(ctx, dir, "tag", "--points-at", "HEAD")
		if err != nil {
			return nil, err
		}
		names = strings.Fields(string(out))
	}
	var tags Tags
	for _, name := range names {
		if d, v, err := addr.VersionFromGit(name); err == nil {
			tags = append(tags, tag{d, v})
		}
	}
	if len(tags) == 0 {
		return nil, &NoVersionError{names}
	}
	return tags, nil
}

// For returns the version that the tags give a directory: from a tag that names the
// directory, else from one that names none. It is false if all tags are for others.
func (tags Tags) For(dir string) (addr.Version, bool) {
	var found []addr.Version
	for _, t := range tags {
		if t.dir != "" && hasPathSuffix(dir, t.dir) {
			found = append(found, t.version)
		}
	}
	if len(found) == 0 {
		for _, t := range tags {
			if t.dir == "" {
				found = append(found, t.version)
			}
		}
	}
	if len(found) == 0 {
		return addr.Version{}, false
	}
	return slices.MaxFunc(found, addr.Version.Compare), true
}

// hasPathSuffix reports whether dir ends in the path elements of suffix.
func hasPathSuffix(dir, suffix string) bool {
	if abs, err := filepath.Abs(dir); err == nil {
		dir = abs
	}
	return strings.HasSuffix("/"+filepath.ToSlash(dir), "/"+strings.Trim(suffix, "/"))
}

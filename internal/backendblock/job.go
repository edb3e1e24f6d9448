// SPDX-License-Identifier: Apache-2.0

package backendblock

// JobPage returns the CI job's address, or "": it helps to find the owner of a lock.
func JobPage(getenv func(string) string) string {
	for _, name := range []string{"CI_JOB_URL", "BUILD_URL", "BUILDKITE_BUILD_URL", "CIRCLE_BUILD_URL"} {
		if v := getenv(name); v != "" {
			return v
		}
	}
	if run := getenv("GITHUB_RUN_ID"); run != "" {
		return getenv("GITHUB_SERVER_URL") + "/" + getenv("GITHUB_REPOSITORY") + "/actions/runs/" + run
	}
	return ""
}

// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"fmt"
	"os"
	"strings"

	"github.com/seed-141914ff/okara/internal/backendblock"
)

// conflictingVariables override a run's profile, and would lead the tool past okara. The backends
// read AWS_S3_ENDPOINT, the AWS SDK the others.
func conflictingVariables() []string {
	return []string{
		"AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "AWS_S3_ENDPOINT",
		"AWS_IGNORE_CONFIGURED_ENDPOINT_URLS", "AWS_USE_FIPS_ENDPOINT", "AWS_USE_DUALSTACK_ENDPOINT",
	}
}

// checkEnvironment returns an error if a state would go to another server.
func checkEnvironment(getenv func(string) string) error {
	for _, name := range conflictingVariables() {
		if v := getenv(name); v == "" || strings.EqualFold(v, "false") {
			continue
		}
		return fmt.Errorf("environment variable %s is set: the tool would bypass okara for the state\nhint: unset it for this command, or configure it in the AWS provider (endpoints block)", name)
	}
	return nil
}

// lockNote describes a run for those who find its lock: host, processes, the CI job's page.
func lockNote(getenv func(string) string, tool string, pid int64) string {
	note := fmt.Sprintf("okara pid %d, %s pid %d", os.Getpid(), tool, pid)
	if host, err := os.Hostname(); err == nil {
		note += " on " + host
	}
	if page := backendblock.JobPage(getenv); page != "" {
		note += ", " + page
	}
	return note
}

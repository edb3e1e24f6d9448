// SPDX-License-Identifier: Apache-2.0

package run_test

import (
	"testing"

	"github.com/seed-141914ff/okara/instances/run"
	"github.com/seed-141914ff/okara/internal/must"
)

// Errors are worded as by tofu, terraform and providers.
func TestPermanent(t *testing.T) {
	for message, want := range map[string]bool{
		"Invalid value for variable: The size is small or large.\n\nThis was checked by the validation rule at main.tf:9,3-13. (main.tf:3)":                                                                              true,
		"Invalid value for input variable: The given value is not suitable for var.count: a number is required. (variables.json:1)":                                                                                      true,
		"Resource precondition failed: the range is too small (main.tf:14) [null_resource.a]":                                                                                                                            true,
		"Unsupported argument: An argument named \"sise\" is not expected here. (main.tf:4)":                                                                                                                             true,
		"Reference to undeclared resource: A managed resource \"a\" \"b\" has not been declared in the root module.":                                                                                                     true,
		"init: Failed to query available provider packages\n\nCould not retrieve the list of available versions for provider acme/missing: provider\nacme/missing was not found in any of the\nsearch locations\n\n - x": true,
		"creating EC2 VPC: operation error EC2: CreateVpc, https response error StatusCode: 403, RequestID: 1, api error UnauthorizedOperation: You are not authorized":                                                  true,
		"googleapi: Error 400: Invalid value for field 'resource.name'":                                                                                                                                                  true,
		"unexpected status 404 (404 Not Found) with error: ResourceGroupNotFound":                                                                                                                                        true,
		"403 Forbidden returned from https://okara.example.com":                                                                                                                                                          true,
		"error running Plan: exit status 1\n\nError: Invalid value for variable\n\n  on main.tf line 3":                                                                                                                  true,

		"creating EC2 VPC: operation error EC2: CreateVpc, https response error StatusCode: 400, api error Throttling: Rate exceeded":               false,
		"googleapi: Error 403: Quota exceeded for quota metric, rateLimitExceeded":                                                                  false,
		"https response error StatusCode: 403, RequestID: 1, api error ExpiredToken: The security token included in the request is expired":         false,
		"https response error StatusCode: 403, RequestID: 1, api error InvalidClientTokenId: The security token included in the request is invalid": false,
		"unexpected status 401 (401 Unauthorized) with error: AuthenticationFailed: Authentication failed":                                          false,
		"googleapi: Error 429: too many requests":      false,
		"googleapi: Error 409: The resource is in use": false,
		"unexpected status 503 (Service Unavailable)":  false,
		"init: Failed to query available provider packages\n\nCould not retrieve the list of available versions: Get \"https://x\": dial tcp: timeout": false,
		"dial tcp 10.0.0.1:443: connect: connection refused": false,
		"no such image":                 false,
		"waiting for 404 instances":     false,
		"Invalid response from the API": false,
		"":                              false,
	} {
		must.Equal(t, message, run.Permanent(message), want)
	}
}

// SPDX-License-Identifier: Apache-2.0

package server

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/seed-141914ff/okara/internal/web"
)

// slow is the time within which a registry should send its header.
const slow = 1.0

// registryFindings are the requests to the registry, one line for each operation.
func registryFindings(m map[string][]sample) (all []web.Finding) {
	requests := m["okara_oci_requests_total"]
	for _, h := range m["okara_oci_request_seconds"] {
		registry, operation := h.labels["registry"], h.labels["operation"]
		of := slices.DeleteFunc(slices.Clone(requests), func(s sample) bool {
			return s.labels["registry"] != registry || s.labels["operation"] != operation
		})
		bad := failures(of)
		f := web.Finding{
			About: "Registry " + registry + ", " + operation, State: fmt.Sprintf("%d of %d requests failed", bad, h.count),
			Meaning: "The registry answers, and soon enough.",
		}
		most, known := h.within()
		if known {
			f.State += fmt.Sprintf("; 95 of 100 were answered within %s", time.Duration(most*float64(time.Second)))
		}
		switch {
		case often(bad, int(h.count)):
			f.Verdict = web.Act
			f.Meaning = "Every tenth request or more got no answer, an error of the registry, or was one too many for it."
			f.Do = "Look at the log of the server and of the registry; okara doctor names what the registry does not do."
		case !known && h.count > 0 || most > slow:
			f.Verdict = web.Look
			f.Meaning = "Whoever asks for what is not in a cache waits that long."
			f.Do = "Look at the load of the registry, and at the way there."
		case bad > 0:
			f.Meaning = "Some requests failed. They are tried again, and the caches answer meanwhile."
		}
		all = append(all, f)
	}
	return all
}

// originFindings are the requests to the origins of providers, one line for each rule.
func originFindings(m map[string][]sample) (all []web.Finding) {
	byRule := map[string][]sample{}
	var rules []string
	for _, s := range m["okara_origin_requests_total"] {
		rule := s.labels["rule"]
		if byRule[rule] == nil {
			rules = append(rules, rule)
		}
		byRule[rule] = append(byRule[rule], s)
	}
	for _, rule := range rules {
		bad, n := failures(byRule[rule]), total(byRule[rule], "", "")
		f := web.Finding{About: "Origins of pull_through " + rule, State: fmt.Sprintf("%d of %d requests failed", bad, n), Meaning: "What is not here yet can be fetched."}
		if often(bad, n) {
			f.Verdict, f.Meaning = web.Look, "Providers that are not here yet may not come. What is here is served all the same."
			f.Do = "Look at the log of the server, and at the way to the origin."
		}
		all = append(all, f)
	}
	return all
}

// failures are the requests without an answer, or with one that says that the other
// side cannot.
func failures(requests []sample) (n int) {
	for _, s := range requests {
		code, err := strconv.Atoi(s.labels["code"])
		if err != nil || code == 429 || code >= 500 {
			n += int(s.value)
		}
	}
	return n
}

// often reports whether so many failed that it is no accident.
func often(bad, all int) bool { return bad > 0 && bad*10 >= all }

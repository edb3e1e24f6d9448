// SPDX-License-Identifier: Apache-2.0

// Package protocol is the lock of a workspace without a registry and without a clock.
// Acquirer, saver, releaser and forcer are machines: each takes the answer to its last
// request and returns the next one. [Snapshot] is what one tag list says, [Hold] what a
// holder knows, [Observation] how long a claim has looked the same. A store performs the
// requests on a registry; the explorer and the simulator of the tests perform them on a
// model of one, so that what is proved is what runs.
package protocol

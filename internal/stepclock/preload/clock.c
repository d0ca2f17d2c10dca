// Preloaded into a process, this moves its calendar clock by an offset that a test
// sets. The monotonic clock stays as it is.
//
// The offset, in nanoseconds, is the eight bytes of the file that WSKIT_CLOCK names.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static volatile int64_t *offset;

__attribute__((constructor)) static void start(void) {
	const char *name = getenv("WSKIT_CLOCK");
	int fd = name ? open(name, O_RDONLY | O_CLOEXEC) : -1;
	if (fd < 0)
		return;
	void *at = mmap(NULL, sizeof(*offset), PROT_READ, MAP_SHARED, fd, 0);
	close(fd);
	if (at != MAP_FAILED)
		offset = at;
}

int clock_gettime(clockid_t id, struct timespec *ts) {
	if (syscall(SYS_clock_gettime, id, ts) != 0)
		return -1;
	if (offset && (id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE)) {
		int64_t ns = ts->tv_nsec + *offset % 1000000000;
		ts->tv_sec += *offset / 1000000000;
		if (ns < 0) {
			ns += 1000000000;
			ts->tv_sec--;
		} else if (ns >= 1000000000) {
			ns -= 1000000000;
			ts->tv_sec++;
		}
		ts->tv_nsec = ns;
	}
	return 0;
}

int gettimeofday(struct timeval *restrict tv, void *restrict zone) {
	struct timespec ts;
	(void)zone;
	if (clock_gettime(CLOCK_REALTIME, &ts) != 0)
		return -1;
	tv->tv_sec = ts.tv_sec;
	tv->tv_usec = ts.tv_nsec / 1000;
	return 0;
}

time_t time(time_t *to) {
	struct timespec ts;
	if (clock_gettime(CLOCK_REALTIME, &ts) != 0)
		return -1;
	if (to)
		*to = ts.tv_sec;
	return ts.tv_sec;
}

/* Test only: Windows' source of random bytes (safetensors calls it), which Wine 8 does not have. */
#include <windows.h>

BOOLEAN NTAPI SystemFunction036(PVOID buffer, ULONG bytes); /* RtlGenRandom */

__declspec(dllexport) BOOL ProcessPrng(PBYTE buffer, SIZE_T bytes)
{
    while (bytes > 0) {
        ULONG part = bytes > 0x10000000 ? 0x10000000 : (ULONG)bytes;
        if (!SystemFunction036(buffer, part))
            return FALSE;
        buffer += part;
        bytes -= part;
    }
    return TRUE;
}
